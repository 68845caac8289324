from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipwise.app.dataset import Dataset, dataset_of, distribution_of, sequence_length
from chipwise.app.finetune_request import PlanFinetuneRequest
from chipwise.app.length_words import fitted
from chipwise.app.requests import parse_request
from chipwise.app.sample_lines import WHOLE
from chipwise.errors import DataFileError, UsageError

SMALL, LARGE = 32_000, 128_000
"""Vocabularies of Llama 2 and Llama 3."""


def asked(**fields: Any) -> PlanFinetuneRequest:
    return parse_request(PlanFinetuneRequest, {"model": "llama-2-7b", **fields})


def read(path: Path, vocab: int = LARGE, **fields: Any) -> Dataset:
    return dataset_of(asked(data=str(path), **fields), vocab)


def written(folder: Path, name: str, *lines: object) -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


# -- tokens of one example


def test_english_counts_by_characters(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"text": "x" * 394})
    # 394 characters at 3.94 each are 100 tokens, and one ends the sequence
    assert read(path).lengths == pytest.approx([101])
    # with 32k tokens at 3.17 characters: 394 / 3.17 = 124.3
    assert read(path, SMALL).lengths == pytest.approx([125.3], abs=0.01)


def test_chinese_has_more_tokens_per_character(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"text": "模" * 100})
    assert read(path).lengths == pytest.approx([61])  # 0.6 tokens each
    assert read(path, SMALL).lengths == pytest.approx([126])  # 35 tokens for 28 characters


def test_the_range_is_that_between_published_tokenizers(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.jsonl", {"text": "plain words"}))
    assert data.factor == pytest.approx(3.94 / 3.17)
    assert data.basis == "assumed"


def test_every_message_has_its_template(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "y" * 394}, {"role": "assistant", "content": "z" * 393}]
    # 394 + newline + 393 = 788 characters: 200 tokens; 2 messages of 5, one end
    assert read(written(tmp_path, "a.jsonl", {"messages": turns})).lengths == pytest.approx([211])


@pytest.mark.parametrize(
    ("record", "layout"),
    [
        ({"messages": [{"role": "user", "content": "hi"}]}, "messages"),
        ({"conversations": [{"from": "human", "value": "hi"}]}, "conversations"),
        ({"instruction": "do", "input": "", "output": "done"}, "instruction-input-output"),
        ({"instruction": "do", "output": "done"}, "instruction-output"),
        ({"prompt": "a", "completion": "b"}, "prompt-completion"),
        ({"question": "a", "answer": "b"}, "question-answer"),
        ({"id": "7", "text": "words"}, "text"),
    ],
)
def test_layouts_are_recognised(tmp_path: Path, record: object, layout: str) -> None:
    assert read(written(tmp_path, "a.jsonl", record)).text == layout


def test_a_stated_column_wins(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"text": "short", "body": "b" * 394})
    assert read(path, text_field="body").lengths == pytest.approx([101])


# -- files


def test_broken_lines_are_counted_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"text": "a"}, "{oh", {"text": "b"}, "[1]", {"text": 5})
    data = read(path)
    assert data.examples == 2
    (warning,) = data.warnings
    assert "2 broken lines" in warning
    assert "line 2: " in warning
    assert "line 4: no JSON object" in warning
    assert "1 examples without text" in warning


def test_a_large_file_is_sampled_the_same_every_time(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    lengths = random.integers(50, 3000, 6000)
    path = written(tmp_path, "big.jsonl", *({"text": "a" * int(n)} for n in lengths))
    assert path.stat().st_size > 2 * WHOLE
    one, other = read(path), read(path)
    assert np.array_equal(one.lengths, other.lengths)
    assert not one.exact
    assert one.sampled < 4000
    assert one.examples == pytest.approx(6000, rel=0.05)
    assert one.lengths.mean() == pytest.approx(lengths.mean() / 3.94 + 1, rel=0.05)
    assert any("examples read" in text for text in one.said)


def test_a_list_in_one_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"instruction": "do", "input": None, "output": "done"}] * 3))
    assert read(path).examples == 3


def test_tables_may_have_newlines_in_cells(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "prompt,completion", '"two\nlines",x', "odd", "p,q")
    data = read(path)
    assert data.examples == 2
    assert "line 4: 1 cells under 2 columns" in data.warnings[0]


def test_parquet_is_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    turns = [[{"role": "user", "content": "x" * 394}]] * 9000
    table = arrow.table({"id": list(range(9000)), "messages": turns})
    parquet.write_table(table, path, row_group_size=500)
    data = read(path)
    assert data.examples == 9000
    assert data.sampled == 8 * 500
    assert data.lengths == pytest.approx([106] * 4000)


def test_a_tokenizer_counts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    path = written(tmp_path, "a.jsonl", {"text": "a b c a b"}, {"text": "a"})
    data = read(path, tokenizer=str(tmp_path / "tokenizer.json"))
    assert data.lengths == pytest.approx([2, 6])  # one and five words, and an end
    assert (data.factor, data.basis) == (1.0, "measured")


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", {"text": "a"})
    with pytest.raises(UsageError, match=r"tokenizers library|cannot read data file"):
        read(path, tokenizer=str(path))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("none.jsonl", None, "no such file"),
        ("a.txt", b"words", "its kind '.txt' is none of .jsonl"),
        ("empty.jsonl", b"", "it holds no example"),
        ("odd.jsonl", b"nonsense\n", "it holds no example.*line 1: "),
        ("bad.jsonl", b'{"text": "\xff\xfe"}\n', "line 1: 'utf-8' codec"),
        ("deep.jsonl", b"[" * 100_000, "nested too deeply|no example"),
        ("list.json", b"[1, 2", "Expecting"),
        ("bad.csv", b"text\n\xff\n", "no UTF-8 text at byte 5"),
        ("bare.csv", b"", "no header line"),
        ("ids.jsonl", b'{"id": 1}\n', "no column of text is recognised among id"),
        ("bad.parquet", b"PAR1 nonsense", "cannot read data file"),
        ("blank.jsonl", b'{"text": ""}\n', "no example has text in text"),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataFileError, match=reason):
        read(path)


def test_a_folder_and_an_unknown_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no regular file"):
        read(tmp_path)
    path = written(tmp_path, "a.jsonl", {"text": "a"})
    with pytest.raises(DataFileError, match="no column 'body'; it has text"):
        read(path, text_field="body")


# -- lengths in words


def test_two_quantiles_are_met_exactly() -> None:
    # p50 is the median; ln(1200/400) = 1.0986 over z(0.9) = 1.2816 gives sigma 0.8573
    found = fitted({"p50": 400.0, "p90": 1200.0})
    assert found.median == pytest.approx(400)
    assert found.sigma == pytest.approx(0.8573, abs=1e-4)
    lengths = found.lengths()
    assert float(np.quantile(lengths, 0.9)) == pytest.approx(1200, rel=0.01)
    # mean of a log-normal: 400·exp(0.8573²/2) = 577.6; the outermost half step is left out
    assert lengths.mean() == pytest.approx(577.6, rel=0.01)


def test_the_longest_is_what_was_said() -> None:
    data = dataset_of(asked(examples="1k", lengths="p50=400,p90=1200,max=2k"), LARGE)
    assert data.longest == 2000
    assert data.examples == 1000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p50=400", "two quantiles at least"),
        ("p50=400,max=900", "two quantiles at least"),
        ("p50=400,p90=300", "lengths fall where quantiles rise"),
        ("p50=400,p90=1200,max=1000", "lengths fall where quantiles rise"),
        ("p50=400,q=3", "'q' is no quantile"),
        ("p50=400,p100=900", "'p100' is no quantile"),
        ("p50=0,p90=3", "1 token at least"),
        ("p50=many,p90=3", "many"),
    ],
)
def test_lengths_that_make_no_sense_say_why(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked(examples=10, lengths=text)


def test_a_mean_alone_says_that_padding_is_unknown() -> None:
    data = dataset_of(asked(examples=10, length=300), LARGE)
    assert "a mean says nothing of padding" in data.warnings[0]


# -- distributions


def test_a_distribution_keeps_mean_and_longest() -> None:
    lengths = np.random.default_rng(1).lognormal(6, 1, 20_000)
    tokens, shares = distribution_of(np.sort(lengths))
    weights = np.diff([0.0, *shares])
    assert len(tokens) <= 513
    assert list(tokens) == sorted(tokens)
    assert tokens[-1] == lengths.max()
    assert float(weights @ np.array(tokens)) == pytest.approx(lengths.mean())


def test_few_lengths_are_kept_as_they_are() -> None:
    assert distribution_of(np.array([5.0, 5.0, 9.0, 9.0])) == ((5.0, 9.0), (0.5, 1.0))


def test_the_sequence_holds_the_longest_example_if_it_may() -> None:
    data = Dataset(np.array([10.0, 700.5]), 2, True, 1.0, "measured")
    assert sequence_length(data, None, False, 4096) == 701
    assert sequence_length(data, None, True, 4096) == 4096
    assert sequence_length(data, 256, False, 4096) == 256
    assert data.truncated_share(256) == 0.5
    assert data.cut(256).longest == 256
