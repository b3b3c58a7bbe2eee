# SPDX-License-Identifier: Apache-2.0
"""Secrets, and proofs that who has sent something knows one."""

from __future__ import annotations

import hashlib
import hmac
import secrets

# The variable in which the ranks of a job find its secret.
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"
SECRET_LENGTH = 32
DIGEST_LENGTH = 32


def make_secret_key() -> bytes:
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256."""
    return hmac.new(key, data, hashlib.sha256).digest()


def check_digest(key: bytes, data: bytes, digest: bytes) -> bool:
    """Whether the digest is right, in a time that does not tell how much of it is."""
    return hmac.compare_digest(compute_digest(key, data), digest)
