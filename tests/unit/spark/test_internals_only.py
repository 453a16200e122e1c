"""What is private in Spark is used in one module only, and by the daemon; their test runs on every version of Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import penstock
import pyspark_penstock

SOURCE = Path(penstock.__file__).parent
INTERNALS = SOURCE / "spark" / "internals.py"
BY_NAME = Path(pyspark_penstock.__file__).parent

# What Spark documents for its users. Of `pyspark` itself, classes.
PUBLIC = ("pyspark", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.functions", "pyspark.sql.types", "pyspark.errors")
PUBLIC_OF_PY4J = ("py4j.protocol",)

# The packages that are given Spark's objects, some without importing pyspark.
MEETS_SPARK = ("spark", "client", "commands")

# What pyspark calls in the JVM, by names that nobody else has.
OF_THE_JVM = {
    "BarrierCoordinator", "MavenUtils", "PairwiseRDD", "PythonPartitioner", "PythonRDD", "PythonUtils", "PythonWorkerFactory",
    "SimplePythonFunction", "SparkEnv", "executorList", "getExecutorIds", "makeRDD", "statusStore", "valueOfPair",
}  # fmt: skip


def private_attributes() -> frozenset[str]:
    """Every attribute with an underscore that pyspark's own classes have, but those of protocols, such as `_repr_html_`."""
    root = Path(pyspark.__file__).parent
    files = [
        *root.glob("core/*.py"),
        *root.glob("sql/*.py"),
        *root.glob("sql/classic/*.py"),
        root / "conf.py",
        root / "serializers.py",
    ]
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                found.add(node.name)
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__") and not name.endswith("_"))


def private_uses(source: str, attributes: frozenset[str]) -> Iterator[str]:
    """What a module uses of Spark that Spark does not document."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if not _is_public(name.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for name in node.names:
                if not _is_public(node.module) or _is_hidden(node.module, name.name):
                    yield f"{node.module}.{name.name}"
        elif isinstance(node, ast.Attribute):
            on_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in OF_THE_JVM or (node.attr in attributes and not on_itself):
                yield node.attr
        elif isinstance(node, ast.Constant) and (node.value in OF_THE_JVM or node.value in ("_jvm", "_jsc", "_jrdd", "_gateway")):
            yield str(node.value)


def _is_public(module: str) -> bool:
    allowed = PUBLIC if module.partition(".")[0] == "pyspark" else PUBLIC_OF_PY4J
    return module.partition(".")[0] not in ("pyspark", "py4j") or module in allowed


def _is_hidden(module: str, name: str) -> bool:
    in_spark = module.partition(".")[0] == "pyspark"
    return in_spark and (name.startswith("_") or (module == "pyspark" and name[0].islower() and f"pyspark.{name}" not in PUBLIC))


def test_should_use_private_names_of_spark_in_one_module_only() -> None:
    attributes = private_attributes()
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE)
        if path != INTERNALS:
            known = attributes if name.parts[0] in MEETS_SPARK else frozenset()  # others have underscores of their own
            found |= {(name.as_posix(), use) for use in private_uses(path.read_text(), known)}
    for path in BY_NAME.glob("*.py"):
        found |= {(path.name, use) for use in private_uses(path.read_text(), attributes)}
    found.discard(("daemon.py", "pyspark.daemon"))  # it must not wait for penstock to be imported
    assert not found, f"move to spark/internals.py, with the reason, and try it in tests/spark_versions: {sorted(found)}"


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("context._jsc.sc()", "_jsc"),
        ("SparkContext._gateway", "_gateway"),
        ("rows._jrdd_deserializer = None", "_jrdd_deserializer"),
        ("getattr(context, '_jvm')", "_jvm"),
        ("jvm.SimplePythonFunction()", "SimplePythonFunction"),
        ("from pyspark.util import _load_from_socket", "pyspark.util._load_from_socket"),
        ("from pyspark.java_gateway import launch_gateway", "pyspark.java_gateway.launch_gateway"),
        ("from pyspark import java_gateway", "pyspark.java_gateway"),
        ("import pyspark.daemon", "pyspark.daemon"),
        ("from pyspark.serializers import NoOpSerializer", "pyspark.serializers.NoOpSerializer"),
        ("from py4j.java_gateway import JavaGateway", "py4j.java_gateway.JavaGateway"),
    ],
)
def test_should_notice_private_names(code: str, use: str) -> None:
    assert use in private_uses(code, private_attributes())


def test_should_let_public_names_pass() -> None:
    code = "from pyspark import SparkContext\nfrom pyspark.sql import SparkSession\nself._jvm.start()\nspark.sparkContext"
    assert not list(private_uses(code, private_attributes()))


def test_should_tell_the_reason_of_each() -> None:
    functions = [node for node in ast.parse(INTERNALS.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 10
    assert [node.name for node in functions if not (ast.get_docstring(node) or "").strip()] == []
