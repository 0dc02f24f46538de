"""Run the jobs service: `python -m placet.jobs`."""

from __future__ import annotations

from placet.jobs.service import build
from placet.jobs.settings import JobsSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("jobs", JobsSettings, build)
