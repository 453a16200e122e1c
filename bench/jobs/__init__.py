"""The jobs, by number."""

from bench.job import Job
from bench.jobs.joins import Joins
from bench.jobs.latency import Latency
from bench.jobs.memory import Memory
from bench.jobs.operators import Operators
from bench.jobs.restart import Restart
from bench.jobs.restore import Restore
from bench.jobs.size import Size
from bench.jobs.windows import Windows
from bench.jobs.wordcount import OpaqueWordCount, WordCount

JOBS: dict[int, type[Job]] = {
    job.number: job for job in (WordCount, OpaqueWordCount, Windows, Joins, Latency, Restore, Size, Memory, Operators, Restart)
}
