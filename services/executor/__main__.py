"""Run an executor: `python -m services.executor`, for the pools in `PLACET_EXECUTOR_POOLS`."""

from __future__ import annotations

from services.executor.service import build
from services.executor.settings import ExecutorSettings
from shared.service import main

if __name__ == "__main__":
    main("executor", ExecutorSettings, build)
