# SPDX-License-Identifier: Apache-2.0
"""Secrets, and digests that prove that a sender has the secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets

# The environment variable with the secret of a job.
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"
SECRET_LENGTH = 32
DIGEST_LENGTH = 32


def make_secret_key() -> bytes:
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256."""
    return hmac.new(key, data, hashlib.sha256).digest()


def check_digest(key: bytes, data: bytes, digest: bytes) -> bool:
    """Whether the digest is right. The time does not depend on the number of right bytes."""
    return hmac.compare_digest(compute_digest(key, data), digest)
