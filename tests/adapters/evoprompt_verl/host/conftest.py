"""Every test here needs veRL."""

from __future__ import annotations

from quiet_verl import collect_ignore_glob, quiet_hosts

__all__ = ["collect_ignore_glob", "quiet_hosts"]
