"""Run approval: `python -m placet.approval`."""

from __future__ import annotations

import placet.runtime.service
from placet.approval.service import build
from placet.approval.settings import ApprovalSettings

if __name__ == "__main__":
    placet.runtime.service.main("approval", ApprovalSettings, build)
