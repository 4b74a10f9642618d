"""Fuzz cases for the gateway: mostly requests that are one step away from a valid one.

Case number n of a seed always has the same bytes, so a finding can be repeated. Cases close to
valid requests are where the checks have to decide.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.runtime.gateway.requests.routes import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    ROUTES,
    Route,
)

_BOUNDARIES: tuple[object, ...] = (
    -(2**63) - 1, -(2**63), -(2**31), -2, -1, -0.5, -0.0, 0, 0.005, 1, 1.0, 1.5, 2, 8, 9, 20, 21,
    64, 65, 100, 101, 1024, 1025, 2048, 2049, 10_000, 10_001, 2**31 - 1, 2**31, 2**53, 2**63 - 1,
    2**63, 2**64, 10**30, 1e308, True, False, None, "", "x", "0", "\x00", "\ufeff", "é" * 100,
    "😀", "x" * 501, "x" * 1001, "x" * 70_000, "auto", "none", "required", [], [[]], [None], [""],
    ["x"], ["x" * 513], ["x"] * 17, ["x"] * 257, [0], [-1], [2**31], [1.5], [True], {}, [{}],
    {"type": "json_object"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": None},
    {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}},
    {"type": "json_schema", "json_schema": {"name": "x", "schema": {"pattern": "(a+)+$"}}},
    {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 5}}},
    {"regex": "(x+x+)+y"}, {"regex": "["}, {"grammar": "root ::= root"}, {"choice": []},
    {"json": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}}, {"unknown": 1},
    {"include_usage": True}, {"include_usage": "x"}, {"1": 100, "2": -100}, {"x": "y"},
    {"999999999": 1}, {"-1": 1}, [{"type": "function", "function": {"name": "f"}}],
    [{"type": "function"}], [{"type": "mcp"}], [{"type": 5}], {"type": "function"},
    {"type": "function", "function": {"name": "absent"}}, "http://127.0.0.1/", "../../etc/passwd",
)  # fmt: skip

_HIDDEN = (
    "cache_salt", "priority", "kv_transfer_params", "vllm_xargs", "mm_processor_kwargs",
    "chat_template", "chat_template_kwargs", "ignore_eos", "prompt_logprobs", "prompt_embeds",
    "guided_json", "guided_regex", "guided_choice", "use_beam_search", "request_id", "functions",
    "documents", "mm_payload", "session_id", "repetition_detection", "__proto__", "",
)  # fmt: skip
"""Fields that engines know and clients may not use, and names of no field."""

_PROMPTS: tuple[object, ...] = (
    "x", "", "x" * 4095, "x" * 4096, "x" * 4097, "word " * 20_000, "\x00", "\ufeff", "\u2028",
    "😀" * 50,
    None, 0, True, {}, [], [[]], ["x"], [""], ["x"] * 64, ["x"] * 65, [0], [1, 2, 3], [-1], [2**31],
    [2**63], [10**6] * 10, [1] * 4095, [1] * 4096, [1] * 4097, [[1], [2]], [[1], []], [["x"]],
    ["x", 1], [1, "x"], [None], [{}], [1.5], "<|endoftext|>" * 10, "<|im_end|>",
)  # fmt: skip

_MESSAGES: tuple[object, ...] = (
    None, "x", {}, [], [[]], [None], [{}], ["x"], [{"role": "user"}], [{"content": "x"}],
    [{"role": 5, "content": "x"}], [{"role": "", "content": "x"}], [{"role": "user", "content": 5}],
    [{"role": "tool", "content": "x"}], [{"role": "tool", "tool_call_id": 5, "content": "x"}],
    [{"role": "assistant", "tool_calls": []}], [{"role": "assistant", "tool_calls": "x"}],
    [{"role": "assistant", "tool_calls": [{"function": {"name": 5, "arguments": "{"}}]}],
    [{"role": "user", "content": [{"type": "text"}]}], [{"role": "user", "content": [{}]}],
    [{"role": "user", "content": [{"type": "text", "text": 5}]}],
    [{"role": "user", "content": [{"type": "image_url",
    "image_url": {"url": "http://127.0.0.1"}}]}],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}],
    [{"role": "user", "content": [{"type": "file", "file": {"file_data": "x"}}]}],
    [{"role": "developer", "content": "x"}, {"role": "user", "content": None}],
    [{"role": "user", "content": "x", "name": "\x00"}], [{"role": "user", "content": "x"}] * 500,
    [{"role": "user", "content": "x" * 5000}], [{"role": "user", "content": "word " * 20_000}],
)  # fmt: skip

_ITEMS: tuple[object, ...] = (
    [{"type": "message"}], [{"type": "item_reference", "id": "x"}], [{"type": "web_search_call"}],
    [{"type": "function_call", "name": 5}], [{"type": "function_call_output", "output": {}}],
    [{"type": "reasoning", "summary": [{}]}], [{"role": "user",
    "content": [{"type": "input_image"}]}],
    [{"type": ["x"]}], [{"type": None, "role": "user", "content": "x"}],
)  # fmt: skip

_PATHS = (
    "/", "/v1", "/v1/", "/v1/models", "/v1/models/", "/v1/models/x", "/v1/models/%00",
    "/v1/models/..",
    "/v1/models/%2e%2e%2fmetrics", "/health", "/ready", "/v1/chat/completions/", "/v1//completions",
    "/v1/../metrics", "/%2e%2e/metrics", "/v1%2Fchat%2Fcompletions", "/V1/CHAT/COMPLETIONS",
    "/v1/chat/completions?x=1", "/v1/chat/completions#x", "/v1/chat/completions;x",
    "//v1/completions",
    "/tokenize", "/detokenize", "/invocations", "/pause", "/resume", "/sleep", "/wake_up",
    "/metrics",
    "/version", "/load", "/ping", "/docs", "/redoc", "/openapi.json", "/admin/governor",
    "/admin/replicas", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/score",
    "/v1/rerank",
    "/v2/embed", "/v2/rerank", "/score", "/rerank", "/pooling", "/classify", "/v1/messages",
    "/v1/audio/transcriptions", "/v1/responses/x", "/v1/responses/x/cancel",
    "/inference/v1/generate",
    "/server_info", "/collective_rpc", "/reset_prefix_cache", "/reset_mm_cache", "/is_sleeping",
    "/start_profile", "/stop_profile", "/scale_elastic_ep", "/mock_vllm/faults", "/%", "/%zz",
    "/\x7f",
    "/" + "a" * 5000, "*", "http://127.0.0.1:1/v1/models",
)  # fmt: skip
_METHODS = (
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get",
    "PROPFIND",
    "M-SEARCH", "X" * 50,
)  # fmt: skip

_BAD_TEXT = (
    b"\x00", b"\xef\xbb\xbf", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff\xfe", b"\xf4\x90\x80\x80",
    b"\\ud800",
    b"\\u0000", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"01", b"+1", b".5", b"1.", b"'",
    b"//",
    b"/**/", b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\r", b"\x0b", b"\x1f",
    b"\xe2\x80\xa8",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes for one connection."""

    kind: str
    data: bytes
    must_answer: bool = True
    """The case is complete HTTP, so silence is a fault."""
    is_head: bool = False
    """The answer has no body, whatever its headers say."""
    closes: bool = False
    """Nothing else can be sent on this connection afterwards."""
    leaves: bool = False
    """The client disconnects without reading."""


def make_case(seed: int, number: int, model: str) -> Case:
    """Case `number` of this seed."""
    rng = random.Random(seed * 1_000_000_007 + number)
    kind, make = rng.choices(_KINDS, weights=_WEIGHTS)[0]
    return make(rng, kind, model)


def _valid(rng: random.Random, route: Route, model: str) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, route.prompt_param: "x"}
    if route is CHAT:
        body["messages"] = [{"role": "user", "content": "hello"}]
    if "max_tokens" in route.fields:
        body["max_tokens"] = rng.randrange(1, 5)
    elif "max_output_tokens" in route.fields:
        body["max_output_tokens"] = rng.randrange(1, 5)
    if "stream" in route.fields and rng.random() < 0.3:
        body["stream"] = True
    return body


def _one_field(rng: random.Random, kind: str, model: str) -> Case:
    route = rng.choice(ROUTES)
    body = _valid(rng, route, model)
    name = rng.choice(_HIDDEN) if rng.random() < 0.15 else rng.choice(_NAMES[route.path])
    body[name] = rng.choice(_BOUNDARIES)
    return _post(kind, route, _encode(body))


def _prompt(rng: random.Random, kind: str, model: str) -> Case:
    route = rng.choice(ROUTES)
    body = _valid(rng, route, model)
    body[route.prompt_param] = rng.choice(
        _MESSAGES + _ITEMS if route is CHAT else _PROMPTS + _ITEMS
    )
    if rng.random() < 0.1:
        body["model"] = rng.choice(_BOUNDARIES)
    return _post(kind, route, _encode(body))


def _many_fields(rng: random.Random, kind: str, model: str) -> Case:
    route = rng.choice(ROUTES)
    body = _valid(rng, route, model)
    for _ in range(rng.randrange(2, 8)):
        body[rng.choice(_NAMES[route.path])] = _any_json(rng, 3)
    return _post(kind, route, _encode(body))


def _passing(rng: random.Random, kind: str, model: str) -> Case:
    """Unusual values that the gateway accepts and forwards to the engine."""
    route = rng.choice((CHAT, CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS))
    body = _valid(rng, route, model)
    for name in rng.sample(_NAMES[route.path], rng.randrange(1, 6)):
        fine = _PASSING[route.path][name]
        if fine and name not in ("model", route.prompt_param, "stream"):
            body[name] = rng.choice(fine)
    return _post(kind, route, _encode(body))


def _any_json(rng: random.Random, depth: int) -> object:
    roll = rng.random()
    if depth == 0 or roll < 0.6:
        return rng.choice(_BOUNDARIES)
    if roll < 0.8:
        return [_any_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = ("type", "name", "function", "role", "content", "text", "x", "\ud7ff")
    return {rng.choice(names): _any_json(rng, depth - 1) for _ in range(rng.randrange(4))}


def _bytes(rng: random.Random, kind: str, model: str) -> Case:
    """A valid body with bytes changed, removed and inserted."""
    route = rng.choice(ROUTES)
    body = bytearray(_encode(_valid(rng, route, model)))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(body) + 1)
        roll = rng.random()
        if roll < 0.4:
            body[at:at] = rng.choice(_BAD_TEXT)
        elif roll < 0.6:
            del body[at : at + rng.randrange(1, 6)]
        elif roll < 0.8:
            body[at : at + 1] = bytes([rng.randrange(256)])
        else:
            body[at:at] = body[: rng.randrange(len(body) + 1)]
    return _post(kind, route, bytes(body))


def _shape(rng: random.Random, kind: str, model: str) -> Case:
    """Deep, wide and long bodies, repeated keys, and bodies that are not objects.

    One in eight of the wide ones has more values than the gateway decodes.
    """
    route = rng.choice(ROUTES)
    depth = rng.choice((60, 63, 64, 65, 66, 500, 2000))
    width = rng.choice((100, 3000, 25_000))
    many = 400_000 if rng.random() < 0.125 else width
    entries = b",".join(b'"%d":0' % n for n in range(width))
    valid = _encode(_valid(rng, route, model))
    body = rng.choice(
        (
            valid[:-1] + b',"metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}",
            valid[:-1] + b',"tools":' + b"[" * depth + b"]" * depth + b"}",
            b"[" * depth,
            valid[:-1] + b',"stop":[' + b"[]," * many + b"[]]}",
            valid[:-1] + b',"stop":[' + b"{}," * many + b"{}]}",
            valid[:-1] + b',"stop_token_ids":[' + b"7," * many + b"7]}",
            valid[:-1] + b',"user":"' + b"[:,{" * many + b'"}',
            valid[:-1] + b',"metadata":{' + entries + b"}}",
            valid[:-1] + b',"logit_bias":{' + entries + b"}}",
            valid[:-1] + b',"user":"' + b"x" * rng.choice((999, 1000, 1001, 50_000)) + b'"}',
            valid[:-1] + b',"seed":' + b"9" * rng.choice((18, 19, 20, 400, 5000)) + b"}",
            valid[:-1] + b',"model":"absent"}',
            valid[:-1] + b',"\\u006dodel":"absent"}',
            valid + valid, b"", b" ", b"null", b"0", b'"x"', b"[]", b"{}", b"[" + valid + b"]",
            b" \n\t" + valid + b" \n", valid.replace(b":", b" : "), b"\xef\xbb\xbf" + valid,
            valid.decode().encode("utf-16"), valid.decode().encode("utf-32"),
        )
    )  # fmt: skip
    return _post(kind, route, body)


def _path(rng: random.Random, kind: str, model: str) -> Case:
    method, path = rng.choice(_METHODS), rng.choice(_PATHS)
    if rng.random() < 0.3:
        path = rng.choice(ROUTES).path
    has_body = method in ("POST", "PUT", "PATCH") and rng.random() < 0.5
    body = _encode(_valid(rng, CHAT, model)) if has_body else b""
    data = _request(method, path, body, "application/json")
    is_plain = method.isupper() and method != "CONNECT" and path.startswith("/") and path != "/\x7f"
    return Case(kind, data, must_answer=is_plain, is_head=method == "HEAD", closes=not is_plain)


def _headers(rng: random.Random, kind: str, model: str) -> Case:
    """Invalid and unusual content types, encodings and headers."""
    route = rng.choice(ROUTES)
    body = _encode(_valid(rng, route, model))
    name, value = rng.choice(
        (
            ("content-type", "text/plain"), ("content-type", ""),
            ("content-type", "application/json;"),
            ("content-type", "application/json; charset=latin1"),
            ("content-type", "APPLICATION/JSON"),
            ("content-type", "multipart/form-data; boundary=x"), ("content-encoding", "gzip"),
            ("content-encoding", "deflate"), ("content-encoding", "br"),
            ("content-encoding", "identity"),
            ("x-request-id", "x" * 129), ("x-request-id", "a b"), ("x-request-id", "\xff"),
            ("authorization", "Bearer " + "x" * 5000), ("authorization", "Basic x"),
            ("cookie", "x" * 5000),
            ("x-data-parallel-rank", "999"), ("accept", "text/html"), ("accept-encoding", "gzip"),
            ("x" * 100, "y"), ("host", "example.com"), ("expect", "100-continue"), ("expect", "x"),
            ("upgrade", "websocket"), ("upgrade", "h2c"), ("connection", "upgrade"),
            ("range", "bytes=0-1"),
            ("x-request-timeout-ms", "-1"), ("x-request-timeout-ms", "x"),
            ("x-request-timeout-ms", "9" * 40),
            ("x-forwarded-for", "127.0.0.1"), ("priority", "x"), ("te", "trailers"), ("from", "\t"),
        )
    )  # fmt: skip
    if (name, value) == ("content-encoding", "gzip") and rng.random() < 0.5:
        body = _GZIP_BOMB
    if name == "content-type":
        return Case(kind, _request("POST", route.path, body, value))
    data = _request("POST", route.path, body, "application/json", f"{name}: {value}\r\n")
    return Case(kind, data, must_answer=name not in ("expect", "upgrade", "connection"),
                closes=name in ("expect", "upgrade", "connection"))  # fmt: skip


def _framing(rng: random.Random, kind: str, model: str) -> Case:
    """Wrong lengths, invalid chunks, two requests in one."""
    body = _encode(_valid(rng, COMPLETIONS, model))
    head = (
        f"POST {COMPLETIONS.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    )
    length = f"content-length: {len(body)}\r\n"
    chunked = "transfer-encoding: chunked\r\n"
    text = body.decode()
    data = rng.choice(
        (
            head + length + length + "\r\n" + text,
            head + length + f"content-length: {len(body) - 1}\r\n\r\n" + text,
            head + length + chunked + "\r\n0\r\n\r\n" + text,
            head + chunked + length + "\r\n" + f"{len(body):x}\r\n{text}\r\n0\r\n\r\n",
            head + "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            head + "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
            head + "transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
            head + "content-length: -1\r\n\r\n", head + "content-length: +1\r\n\r\n{",
            head + "content-length: 1_0\r\n\r\n{", head + "content-length: 99999999999\r\n\r\n",
            head + "content-length: x\r\n\r\n", head + "content-length: 0x10\r\n\r\n",
            head + chunked + "\r\nzz\r\n", head + chunked + "\r\n-1\r\n",
            head + chunked + "\r\n\r\n",
            head + chunked + "\r\nfffffffffffffffff\r\n",
            head + chunked + "\r\n1\r\nab\r\n0\r\n\r\n",
            head + chunked + "\r\n0\r\nGET /metrics HTTP/1.1\r\n\r\n",
            head + chunked + f"\r\n{len(body):x}\r\n{text}\r\n0\r\nx: y\r\n\r\n",
            head + chunked + "\r\n0\r\nx: " + "a" * 200_000,
            head + chunked + "\r\n1;" + "a" * 200_000,
            head + length + "\r\n" + text + "\r\n" * rng.choice((1, 2, 50_000)),
            head + length + "\r\n" + text + rng.choice(("GET", "\x00", "x" * 70_000)),
            (head + length + "\r\n" + text) * 2,
            head.replace("HTTP/1.1", "HTTP/1.0") + chunked + "\r\n0\r\n\r\n",
            head.replace("HTTP/1.1", "HTTP/9.9") + length + "\r\n" + text,
            head.replace("HTTP/1.1", "") + length + "\r\n" + text,
            head.replace("\r\n", "\n") + length + "\r\n" + text,
            head + "x y: z\r\n\r\n", head + ": z\r\n\r\n", head + " folded\r\n\r\n",
            head + "\x00: x\r\n\r\n",
            head + "x: a\x00b\r\n\r\n", head + "x: " + "a" * 70_000 + "\r\n\r\n",
            "\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "x" * 3000 + "\r\n\r\n",
        )
    )  # fmt: skip
    return Case(kind, data.encode("latin-1"), must_answer=False, closes=True)


def _leave(rng: random.Random, kind: str, model: str) -> Case:
    """The client disconnects: in the middle of its request, or right after it."""
    route = rng.choice((CHAT, COMPLETIONS))
    whole = _request("POST", route.path, _encode({**_valid(rng, route, model), "stream": True}),
                     "application/json")  # fmt: skip
    cut = rng.randrange(1, len(whole) + 1) if rng.random() < 0.5 else len(whole)
    return Case(kind, whole[:cut], must_answer=False, closes=True, leaves=True)


def _post(kind: str, route: Route, body: bytes) -> Case:
    return Case(kind, _request("POST", route.path, body, "application/json"))


def _request(method: str, path: str, body: bytes, content_type: str, extra: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{extra}"
    if content_type:
        head += f"content-type: {content_type}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


_NAMES = {route.path: sorted(route.fields) for route in ROUTES}
_PASSING = {
    route.path: {
        name: [value for value in _BOUNDARIES if value is None or check(value) is None]
        for name, check in route.fields.items()
    }
    for route in ROUTES
}
_GZIP_BOMB = gzip.compress(b" " * 10_000_000)

Maker = Callable[[random.Random, str, str], Case]
_MAKERS: tuple[tuple[str, Maker, int], ...] = (
    ("one_field", _one_field, 30),
    ("passing", _passing, 15),
    ("many_fields", _many_fields, 10),
    ("prompt", _prompt, 10),
    ("bytes", _bytes, 15),
    ("shape", _shape, 4),
    ("path", _path, 8),
    ("headers", _headers, 5),
    ("framing", _framing, 2),
    ("leave", _leave, 1),
)
_KINDS = [(kind, make) for kind, make, _ in _MAKERS]
_WEIGHTS = [weight for _, _, weight in _MAKERS]
