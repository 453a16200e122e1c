"""Instances of one application among themselves: which addresses can be theirs, and how they prove that they belong together.

All of them know `application.server.token`. It is never sent to a peer: each side shows that it knows it, by HMACs over what both
sides say, under keys that are derived from it for one purpose each.
"""
