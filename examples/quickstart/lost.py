import ctrlrun

from agent import stripe


@ctrlrun.protect("stripe.refund", effect="refund:{payment_id}")
def refund(payment_id: str, amount: int) -> dict:
    stripe.refund(payment_id, amount)
    raise TimeoutError("no response after 30s")


with ctrlrun.context(agent="refund-agent"):
    for _ in range(2):
        try:
            refund(payment_id="txn_3", amount=50000)
        except TimeoutError:
            print("€500: the reply was lost")
        except (ctrlrun.AmbiguousEffect, ctrlrun.DuplicateEffect) as refusal:
            print("€500 again: refused,", type(refusal).__name__)

print("remote refund calls:", len(stripe.calls))
