"""A real Spark cluster on this machine: one master and some workers, from the installed pyspark.

`python tests/support/spark_cluster.py` (or `make spark-cluster`) runs one until Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from mrflearn.execution.spark import Spark

LOOPBACK = "127.0.0.1"
PATIENCE = 180.0  # seconds until a process must have said that it is there
ROOT = Path(__file__).parents[2]
WITHOUT_SPARK = "pyspark is not installed: pip install 'mrflearn[spark]'"


def why_not() -> str | None:
    """What is missing for a cluster, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return WITHOUT_SPARK
    if importlib.util.find_spec("pandas") is None or importlib.util.find_spec("grpc") is None:
        return "pandas and grpcio are not installed: pip install 'mrflearn[spark]'"
    if shutil.which("java") is None:
        return "Spark needs Java 17, and no java was found"
    return None


class SparkCluster:
    """A master and `workers` workers of `cores` cores on loopback, until the block ends."""

    def __init__(self, workers: int = 2, cores: int = 1, port: int = 0, memory: str = "1g") -> None:
        self.count, self.cores, self.port, self.memory = workers, cores, port, memory
        self.folder = Path(tempfile.mkdtemp(prefix="mrflearn-spark-"))
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = ""
        self.connect_port = 0

    @property
    def connect_url(self) -> str:
        """Where the driver of `executor` serves Spark Connect."""
        return f"sc://{LOOPBACK}:{self.connect_port}"

    def executor(self, **settings: str) -> Spark:
        """An executor whose driver serves Spark Connect as well, for the sake of one JVM."""
        with socket.create_server((LOOPBACK, 0)) as free:
            self.connect_port = free.getsockname()[1]
        own = {
            "spark.driver.host": LOOPBACK,
            "spark.executor.memory": "512m",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.connect_port),
            "spark.sql.shuffle.partitions": "2",
            # All tests are run with slow tasks tried twice.
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "3s",
        }
        return Spark(self.url, {**own, **settings})

    def __enter__(self) -> Self:
        try:
            options = ["--host", LOOPBACK, "--port", str(self.port), "--webui-port", "0"]
            self.master = self._start(
                "master", "org.apache.spark.deploy.master.Master", LOOPBACK, *options
            )
            self.url = self._said("master", r"spark://[\d.]+:\d+")
            for number in range(self.count):
                host = f"127.0.0.{number + 1}"  # Spark tries a slow task again on another host only
                options = ["--host", host, "--cores", str(self.cores)]
                options += ["--memory", self.memory]
                options += ["--webui-port", "0", "--work-dir", str(self.folder / f"w{number}")]
                kind = "org.apache.spark.deploy.worker.Worker"
                self.workers.append(self._start(f"worker{number}", kind, host, *options, self.url))
            for number in range(self.count):
                self._said(f"worker{number}", "Successfully registered")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every process that was started here, by its own id."""
        for process in [*self.workers, *([self.master] if self.master else [])]:
            if process.poll() is None:
                process.terminate()
        for process in [*self.workers, *([self.master] if self.master else [])]:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, kind: str, host: str, *words: str) -> subprocess.Popen[bytes]:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        places = [ROOT / "src", ROOT / "tests", home.parent, os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(str(place) for place in places if place),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), kind, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def _said(self, name: str, pattern: str) -> str:
        """What a process wrote to say that it is ready."""
        log, until = self.folder / f"{name}.log", time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found.group()
            time.sleep(0.1)
        raise TimeoutError(f"{name} is not ready after {PATIENCE:g} s: {log.read_text()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--port", type=int, default=7077)
    options = parser.parse_args()
    missing = why_not()
    if missing:
        sys.exit(missing)
    with SparkCluster(options.workers, options.cores, options.port) as cluster:
        pids = ", ".join(str(worker.pid) for worker in cluster.workers)
        sys.stdout.write(f"{cluster.url}  (workers: {pids}; Ctrl-C ends it)\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
