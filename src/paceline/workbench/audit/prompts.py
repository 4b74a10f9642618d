"""The prompts of an audit: short texts that leave the next tokens open.

They fit any language model; a drafter predicts some of them well and some badly. The repetitive
ones make penalties matter, because the same tokens stay likely.
"""

from __future__ import annotations

PROMPTS = (
    'def read_config(path):\n    """Read the configuration from a file."""\n    with open(path) as',
    "import os\nimport sys\n\n\ndef main():\n    for name in sys.argv[1:]:\n        ",
    "class Queue:\n    def __init__(self, maxsize=0):\n        self.",
    "def find_lowest(values):\n    lowest = None\n    for value in values:\n        if ",
    "The quick brown fox jumps over the lazy dog. Then the",
    "In this chapter of the guide we will look at the",
    "name,age,city\nAlice,31,Paris\nBob,27,",
    "    try:\n        data = self._socket.recv(1024)\n    except OSError as error:\n        ",
    "Q: What is the capital of France?\nA:",
    "def test_split(self):\n    self.assertEqual(split('a b'), ",
)
REPETITIVE = (
    "x = x + x + x + x + x + x +",
    "ha ha ha ha ha ha ha ha ha ha",
)
