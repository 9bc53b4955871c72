import ctrlrun

from agent import refund, stripe

for payment_id, amount in [("txn_5", 10000), ("txn_6", 20000)]:
    try:
        with ctrlrun.context(agent="night-agent"):
            refund(payment_id=payment_id, amount=amount)
    except ctrlrun.AuthorityDenied as refusal:
        print(f"{payment_id}: refused, {refusal.reason}")
    else:
        print(f"{payment_id}: refunded")

print("remote refund calls:", len(stripe.calls))
