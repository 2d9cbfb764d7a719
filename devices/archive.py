"""The agent as one file: a zipapp, made from `devices.agent` and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from devices import agent
from devices.errors import DeviceError

PACKAGE = "tuner_agent"
AGENT_FOLDER = Path(agent.__file__).parent
DATA_FOLDER = AGENT_FOLDER / "workloads" / "data"
"""What the named workloads train on; it lies beside the archive, not in it."""

DATA_VARIABLE = "TUNER_AGENT_DATA"
"""Environment variable that tells the workloads of the archive where that folder is."""

_MAIN = f"import sys\nfrom {PACKAGE}.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # one content, one file, byte for byte


def build_archive() -> bytes:
    """The archive's bytes: every module of the agent, without data. The same sources give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(AGENT_FOLDER.rglob("*.py")):
            name = f"{PACKAGE}/{path.relative_to(AGENT_FOLDER).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _require_own(folder: Path) -> None:
    """Refuse a folder in which somebody else could change what this user is about to run.

    Raises:
        PermissionError: it belongs to another user, or others may write into it.
    """
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others")


def _write(content: bytes, path: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def archive_path() -> Path:
    """The archive as a file, written if this version of it is not there yet.

    Raises:
        DeviceError: neither the user's cache folder nor the folder for temporary files can be written.
    """
    content = build_archive()
    name = f"{PACKAGE}-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    refusal: OSError | None = None
    for folder in (Path(platformdirs.user_cache_dir("tuner")), Path(tempfile.gettempdir()) / f"tuner-{os.getuid()}"):
        path = folder / name
        try:
            if path.is_file() and path.read_bytes() == content:
                _require_own(folder)
                return path
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_own(folder)
            _write(content, path)
        except OSError as error:
            refusal = error
        else:
            return path
    raise DeviceError(f"the agent cannot be written anywhere: {refusal}", hint="XDG_CACHE_HOME=FOLDER")
