"""Run the audit service: `python -m services.audit`."""

from __future__ import annotations

from services.audit.service import build
from services.audit.settings import AuditSettings
from shared.service import main

if __name__ == "__main__":
    main("audit", AuditSettings, build)
