"""KStream.to_files: rows staged with each commit, and published as files of a lake after it."""

from penstock.operators.files.sink import KStreamToFiles

__all__ = ["KStreamToFiles"]
