"""Run approval: `python -m services.approval`."""

from __future__ import annotations

from services.approval.service import build
from services.approval.settings import ApprovalSettings
from shared.service import main

if __name__ == "__main__":
    main("approval", ApprovalSettings, build)
