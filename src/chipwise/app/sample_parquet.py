"""A bounded sample of a Parquet file of examples: rows of the first and of some random groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from chipwise.app.arrow import load_arrow
from chipwise.app.sample_lines import Record, Sample, unreadable

_ROWS = 512
"""Rows of each group that is looked at."""
_GROUPS = 8
_WHOLE = _ROWS * _GROUPS
_SEED = 20


def sample_parquet(path: Path, columns_of: Callable[[Sequence[str]], Sequence[str]]) -> Sample:
    """Rows of a Parquet file.

    Args:
        path: the file.
        columns_of: which of the columns that there are hold the text; only these are read.

    Raises:
        UsageError: pyarrow is missing.
        DataFileError: no Parquet file.
        OSError: the file cannot be read.
    """
    arrow, parquet = load_arrow("data")
    try:
        with parquet.ParquetFile(path) as file:
            rows = int(file.metadata.num_rows)
            columns = list(columns_of(file.schema_arrow.names))
            groups = range(file.num_row_groups)
            whole = rows <= _WHOLE
            records: list[Record] = []
            for group in groups if whole else _chosen(len(groups)):
                batches = file.iter_batches(_ROWS, row_groups=[group], columns=columns)
                for batch in batches:
                    records += batch.to_pylist()
                    if not whole:
                        break
    except (arrow.ArrowException, ValueError) as error:
        raise unreadable(path, str(error).partition("\n")[0]) from None
    return Sample(tuple(records), rows, whole)


def _chosen(groups: int) -> list[int]:
    """The first group and random others, always the same."""
    others = Random(_SEED).sample(range(1, groups), min(groups, _GROUPS) - 1)
    return [0, *sorted(others)]
