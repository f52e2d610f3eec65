"""Who may ask for what: keys, tokens, roles, teams, rates.

rules    the section [auth] of the settings, checked
keys     API keys: made, stored as hashes, known again
tokens   OIDC bearer tokens: signature, issuer, audience, expiry
scope    what a role sees of the tables, and a team of their rows
gate     a request's headers to a Principal, or a refusal
"""
