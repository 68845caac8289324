from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from chipwise.app import refusals, requests
from chipwise.cli.commands import COMMANDS, Command
from chipwise.cli.flags import output_flags

BY_NAME = {command.name: command for command in COMMANDS}


def request_of(command: Command) -> type[requests.Request]:
    home, _colon, name = command.request.rpartition(":")
    kind: type[requests.Request] = vars(import_module(f"chipwise.app.{home or 'requests'}"))[name]
    return kind


@pytest.mark.parametrize("name", BY_NAME)
def test_flags_and_arguments_are_exactly_the_fields_of_the_request(name: str) -> None:
    command = BY_NAME[name]
    offered = {flag.field for flag in command.flags()}
    offered |= {argument.field for argument in command.arguments()} | {"catalogue"}
    fields = set(request_of(command).model_fields) - set(command.fixed)
    if command.request == "CatalogueRequest":
        fields -= {"id", "as_of"} - offered
    assert offered == fields


@pytest.mark.parametrize("name", BY_NAME)
def test_choices_in_the_help_are_those_of_the_request(name: str) -> None:
    command = BY_NAME[name]
    for flag in command.flags():
        allowed = refusals.choices_of(request_of(command), flag.field)
        assert flag.choices == allowed, flag.name


@pytest.mark.parametrize("name", BY_NAME)
def test_no_spelling_stands_for_two_flags(name: str) -> None:
    flags = (*BY_NAME[name].flags(), *output_flags())
    spelled = Counter(word for flag in flags for word in flag.spelled)
    assert max(spelled.values()) == 1


@pytest.mark.parametrize("name", BY_NAME)
def test_every_flag_and_argument_says_what_it_is_and_where_it_stands(name: str) -> None:
    command = BY_NAME[name]
    assert all(flag.help and flag.section for flag in (*command.flags(), *output_flags()))
    assert all(argument.help for argument in command.arguments())
    assert command.summary().endswith(".")


@pytest.mark.parametrize("name", BY_NAME)
def test_the_example_is_a_line_of_this_command(name: str) -> None:
    assert BY_NAME[name].example.startswith(f"chipwise {name}")
