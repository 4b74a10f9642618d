"""Generate the reference of all settings, docs/configuration.md, from the tree.

Run `python -m paceline.runtime.config.reference > docs/configuration.md`.
"""

from __future__ import annotations

import sys
from typing import get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from paceline.runtime.config.sources import variable_of
from paceline.runtime.config.tree import Settings

_HEAD = """\
# Configuration

All settings, generated from `src/paceline/runtime/config/tree.py`. They come from three layers; a
later layer wins:

1. the file: `paceline.yaml` in the working folder, or the file or pipe given by `--config`; a file
   whose name only resembles `paceline.yaml` is refused
2. the environment: `PACELINE_<SECTION>__<SETTING>` in capitals, with lists as JSON; another
   variable whose name begins with `PACELINE_`, or resembles a setting's, is refused, unless
   Paceline or Kubernetes uses it
3. the flags of `paceline serve`; the arguments after `--` are `engine.vllm_args`

`paceline serve --print-config` prints the effective values and where each one comes from, in a form
that can be used as the file.

Unknown and repeated settings are refused, also within an entry of a list; the error names the
closest setting. So are merge keys (`<<`), tags (`!!str`), anchors and aliases, several documents
in a file, and a file or a section without settings.
[Security](security.md#settings-that-protect) lists the settings that protect something, which are
never empty. In YAML, `off` is a text, and `010`, `8_0` and `1:30` are refused, because readers take
them for different numbers.

```yaml
# paceline.yaml
server:
  port: 8080
engine:
  model: /models/my-model
  draft: /models/my-draft
  policy: goodput
replicas:
  - url: http://10.0.0.5:8000
  - dns: llm.svc:8000
    key_file: /etc/paceline/llm.key
```
"""


def render_reference() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for section, field in Settings.model_fields.items():
        model = field.annotation
        is_list = get_origin(model) is tuple
        if is_list:
            model = get_args(model)[0]
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        parts.append(f"## {section}\n\n{field.description}\n")
        if is_list:
            parts.append("| field of an entry | default | meaning |\n|---|---|---|")
        else:
            parts.append("| setting | default | environment | meaning |\n|---|---|---|---|")
        for name, setting in model.model_fields.items():
            default = setting.default
            shown = "" if default in (None, (), frozenset(), PydanticUndefined) else f"`{default}`"
            variable = variable_of((section, name))
            meaning = " ".join((setting.description or "").split())
            if is_list:
                parts.append(f"| `{name}` | {shown} | {meaning} |")
            else:
                parts.append(f"| `{section}.{name}` | {shown} | `{variable}` | {meaning} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(render_reference())
