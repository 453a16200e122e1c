"""The join of two tables by a key that is found in the left one's values.

Each change of a left row is sent to where the right row lives, as a subscription; the right side keeps it and answers with
its row, now and whenever that row changes; the left side joins the answer with its own row, unless that has changed meanwhile.

    left table ─ send ─► receive ─ join ─► response        subscription_send, subscription_receive, subscription_join
    right table ─────── look up ─────────► response        foreign_table_join
    response ─ join with the left row ─► result            response_join
"""
