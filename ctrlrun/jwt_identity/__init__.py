"""Principals from signed tokens: `JWTIdentityProvider`, beside the two plain ones of `identity`.

Nothing here loads PyJWT before a provider is made, and `import ctrlrun` loads nothing of it. What
is refused, and what is not looked at, is in docs/identity.md.
"""

from ctrlrun.jwt_identity.provider import JWTIdentityProvider as JWTIdentityProvider

__all__ = ["JWTIdentityProvider"]
