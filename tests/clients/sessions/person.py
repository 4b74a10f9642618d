"""The schema of `steps.py` as a pydantic model, for clients that take a class."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Person(BaseModel):
    """A person."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=8)]
    age: Annotated[int, Field(ge=0, le=99)]
