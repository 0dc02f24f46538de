"""Run an executor: `python -m placet.executor`, for the pools in `PLACET_EXECUTOR_POOLS`."""

from __future__ import annotations

import placet.runtime.service
from placet.executor.service import build
from placet.executor.settings import ExecutorSettings

if __name__ == "__main__":
    placet.runtime.service.main("executor", ExecutorSettings, build)
