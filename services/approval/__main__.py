"""Run approval: `python -m placet.approval`."""

from __future__ import annotations

from placet.approval.service import build
from placet.approval.settings import ApprovalSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("approval", ApprovalSettings, build)
