import asyncio
from datetime import timedelta
from pathlib import Path

import ctrlrun

from agent import stripe

ASKED = Path("desk_request.txt")


class RefundDesk:
    @ctrlrun.protect("stripe.refund", effect="refund:{payment_id}")
    async def refund(self, payment_id: str, amount: int) -> dict:
        return stripe.refund(payment_id, amount)


async def ask(desk: RefundDesk) -> str:
    try:
        await desk.refund(payment_id="txn_4", amount=300000)
    except ctrlrun.ApprovalRequired as pending:
        return pending.request_id
    raise SystemExit("the €3,000 refund ran without a human; the policy is not in force")


async def finish(desk: RefundDesk, request_id: str) -> None:
    answer = await ctrlrun.aanswer_of(request_id, timeout=timedelta(seconds=2))
    print("the answer is", answer)
    if answer == "granted":
        with ctrlrun.with_approval(request_id):
            print("€3,000:", (await desk.refund(payment_id="txn_4", amount=300000))["status"])


with ctrlrun.context(agent="refund-agent"):
    desk = RefundDesk()
    if not ASKED.exists():
        ASKED.write_text(asyncio.run(ask(desk)))
    asyncio.run(finish(desk, ASKED.read_text()))
