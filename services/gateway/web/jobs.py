"""The page of a job."""
from fastapi import APIRouter

router = APIRouter(prefix="/jobs", include_in_schema=False)
