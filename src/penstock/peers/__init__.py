"""Communication between instances of one application: valid addresses, and authentication.

All instances know `application.server.token`, which is never sent to a peer. Each side proves its knowledge by HMACs over the
exchanged data, with a derived key for each purpose.
"""
