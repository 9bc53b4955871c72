"""A grant is handed on twice, smaller each time, and two agents try to get around that."""

import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ctrlrun

HERE = Path(__file__).resolve().parent
FOLDER = Path(".ctrlrun/examples/authority-escalation")
DANA = "dana@example.com"
TONIGHT = datetime.now(UTC) + timedelta(hours=8)

shutil.rmtree(FOLDER, ignore_errors=True)
policy = ctrlrun.Policy.from_file(HERE / "ctrlrun.yaml")
store = ctrlrun.SQLiteStateStore(FOLDER / "state.db")
control = ctrlrun.Control(
    policy,
    store,
    authority=policy.authority,
    sinks=[ctrlrun.JSONLEventSink(FOLDER)],
    environment="production",
)
refunded: list[tuple[str, int]] = []


@ctrlrun.protect("stripe.refund", control=control)
def refund(payment_id: str, amount: int) -> str:
    refunded.append((payment_id, amount))
    return f"re_{payment_id}"


def up_to(amount: int, agent: str, *, delegable: bool) -> ctrlrun.Grant:
    """A grant for an agent that acts for Dana today; its id is assigned when it is handed on."""
    return ctrlrun.Grant(
        id="",
        subject=ctrlrun.Subject(agent=agent, user=DANA),
        actions=["stripe.refund"],
        resources=["payment:EU-*"],
        constraints=ctrlrun.parse_conditions({"amount_gte": 0, "amount_lte": amount}, where="grant"),
        expires_at=TONIGHT,
        delegable=delegable,
    )


head = ctrlrun.Principal("head-of-support", DANA)
finance = ctrlrun.Principal("finance-agent", DANA)
for_finance = control.delegate(
    "head-of-support", up_to(2_500_000, "finance-agent", delegable=True), by=head
)
for_support = control.delegate(
    for_finance.delegation_id, up_to(200_000, "support-agent", delegable=False), by=finance
)
print("head of support €100,000  →  finance agent €25,000  →  support agent €2,000")

with ctrlrun.context(agent="support-agent", user=DANA):
    print("support agent refunds €500:", refund(payment_id="EU-1", amount=50_000))

    # One agent asks for more than it was given.
    try:
        refund(payment_id="EU-2", amount=5_000_000)
    except ctrlrun.AuthorityDenied as denial:
        print(f"support agent refunds €50,000: BLOCKED, more than was handed on ({denial.reason})")
    else:
        sys.exit("€50,000 went out under a grant of €2,000: authority did not hold")

# Another one tries to hand on more than it has.
try:
    control.delegate(
        for_finance.delegation_id, up_to(5_000_000, "support-agent", delegable=False), by=finance
    )
except ctrlrun.AuthorityEscalation as escalation:
    print(
        "finance agent hands on €50,000 of its €25,000: BLOCKED "
        f"({escalation.reason}: {escalation.dimension})"
    )
else:
    sys.exit("€50,000 were handed on out of €25,000: containment did not hold")

# What is taken back is gone for everybody beneath it.
control.revoke(for_finance.delegation_id, by="dana")
with ctrlrun.context(agent="support-agent", user=DANA):
    try:
        refund(payment_id="EU-3", amount=50_000)
    except ctrlrun.AuthorityDenied as denial:
        print(f"after the finance agent's grant was revoked: BLOCKED ({denial.reason})")
    else:
        sys.exit("a refund went out under a grant whose parent was revoked")

print("remote refund calls:", len(refunded))
if refunded != [("EU-1", 50_000)]:
    sys.exit(f"the remote was asked for {refunded}, and one refund of €500 was permitted")
store.close()
