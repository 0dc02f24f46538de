"""Run an executor: `python -m placet.executor`, for the pools in `PLACET_EXECUTOR_POOLS`."""

from __future__ import annotations

from placet.executor.service import build
from placet.executor.settings import ExecutorSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("executor", ExecutorSettings, build)
