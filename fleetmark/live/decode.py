"""Messages that need a schema, as the JSON lines that sources read."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from fleetmark.errors import SettingsError
from fleetmark.live.inputs import Kafka

# The content as a source reads it, or why there is none.
Decoded = bytes | str
Decode = Callable[[bytes], Decoded]
# A schema registry's framing: a zero byte and the id of the schema, four bytes.
_FRAME = 5


def decoder_of(one: Kafka) -> Decode:
    """How this input's messages become text. Raises SettingsError for a schema that is none."""
    if not one.schema_file:
        return lambda content: content
    if one.protobuf_message:
        return _protobuf(Path(one.schema_file), one.protobuf_message)
    return _avro(Path(one.schema_file))


def _avro(path: Path) -> Decode:
    try:
        schema = parse_schema(msgspec.json.decode(path.read_bytes()))
    except (OSError, msgspec.DecodeError, SchemaParseException, ValueError) as error:
        raise SettingsError(f"{path} is no Avro schema: {error}") from None

    def decode(content: bytes) -> Decoded:
        for body in (content[_FRAME:], content) if content[:1] == b"\0" else (content,):
            stream = io.BytesIO(body)
            # fastavro raises whatever its reader meets: EOFError, IndexError, ValueError, …
            try:
                value = schemaless_reader(stream, schema, None)
            except Exception:  # noqa: BLE001, S112 - any failure means that the schema does not fit
                continue
            if stream.tell() == len(body):
                return msgspec.json.encode(value, enc_hook=str)
        return f"does not fit the Avro schema {path.name}"

    return decode


def _protobuf(path: Path, name: str) -> Decode:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (OSError, DecodeError, KeyError, TypeError) as error:
        raise SettingsError(f"{path} does not define the message {name}: {error}") from None

    def decode(content: bytes) -> Decoded:
        for body in (content, content[_FRAME + 1 :]) if content[:1] == b"\0" else (content,):
            try:
                value = kind.FromString(body)
            except DecodeError:
                continue
            text: str = json_format.MessageToJson(
                value, preserving_proto_field_name=True, indent=None
            )
            return text.encode()
        return f"does not fit the Protobuf message {name}"

    return decode
