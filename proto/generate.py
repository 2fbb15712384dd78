"""Regenerate the Python code of `proto/tidegate/v1/*.proto`: ``python -m tidegate.proto.generate``.

Needs the extra ``proto``. The output is a function of the .proto files and of grpcio-tools' version alone, so a test
can say when it is stale. protoc knows only absolute imports; they are made relative, because the code lives in the
package ``tidegate.proto.tidegate.v1``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib import resources
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "tidegate/v1"

_ABSOLUTE_IMPORT = re.compile(r"^from tidegate\.v1 import ", re.MULTILINE)


def generate() -> dict[str, str]:
    """The generated files' texts by name."""
    from grpc_tools import protoc

    sources = sorted((HERE / PACKAGE).glob("*.proto"))
    well_known = resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{HERE}", f"-I{well_known}"]
        arguments += [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main([*arguments, *map(str, sources)]) != 0:
            raise SystemExit("protoc refused the .proto files; its messages are above")
        files = sorted((Path(folder) / PACKAGE).iterdir())
        texts = {file.name: _ABSOLUTE_IMPORT.sub("from . import ", file.read_text(encoding="utf-8")) for file in files}
    # A service-less .proto has nothing to say in its _grpc file, and protoc writes one all the same.
    return {name: text for name, text in texts.items() if not name.endswith("_pb2_grpc.py") or "class " in text}


def main() -> int:
    target = HERE / PACKAGE
    texts = generate()
    for stale in target.glob("*_pb2*.py*"):
        if stale.name not in texts:
            stale.unlink()
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
