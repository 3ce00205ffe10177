"""Files on disk: atomic writes, JSON and YAML, typed parsing, limits."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._documents import Result, json_text, parse_json, parse_yaml, read_json, read_json_lines, read_yaml, write_json
    from ._files import (
        DiskFull,
        check_new,
        check_new_folder,
        check_text,
        fingerprint,
        hash_of,
        naming_errors,
        replacing,
        replacing_folder,
        safetensors,
        sweep,
        sync,
    )
    from ._schema import (
        ARCHIVE_BYTES,
        DOWNLOAD_BYTES,
        DOWNLOAD_SPEED,
        JSON_BYTES,
        LAYERS,
        MIB,
        check_columns,
        check_grown,
        check_unpacked,
        parse,
        unpacked_limit,
    )

__getattr__, __dir__, __all__ = lazy(__name__)
