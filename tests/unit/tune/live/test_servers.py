"""The command of a server: its fields, and what is refused."""

from __future__ import annotations

import pytest

from paceline.tune.live.servers import check_template, fill_command
from paceline.tune.values import RestartConfig, TuneError


def test_fields_are_filled_and_quotes_are_kept_together() -> None:
    command = fill_command(
        "serve 'my model' --port {port} --seqs={seqs}", RestartConfig((("seqs", 8),)), 81, 82
    )
    assert command == ["serve", "my model", "--port", "81", "--seqs=8"]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("serve --seqs {seqs}", "has no field {port}"),
        ("serve {port}", "has no field {seqs}, which --space varies"),
        ("serve {port} {seqs} {x}", "has the field {x}, for which --space has no values"),
        ("serve {port", "is no template"),
    ],
)
def test_wrong_templates_are_refused(template: str, message: str) -> None:
    with pytest.raises(TuneError) as error:
        check_template(template, {"seqs"})
    assert message in str(error.value)


def test_the_admin_port_is_optional() -> None:
    check_template("serve {port} {admin_port} {seqs}", {"seqs"})
    check_template("serve {port} {seqs}", {"seqs"})
