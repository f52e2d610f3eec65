"""Speed against peers and physical limits, measured in one run, as ratios.

`python -m fleetmark.benchmarks [NAME...] [--scale X] [--peer-dir DIR] [--json] [--write]` measures every
workload, or those named. A workload is a `Workload` (workload.py) in a file of this folder; there is no
list to edit. A file with one reads:

    WORKLOAD = Workload(
        name="s3_access",                    # what NAME on the command line says
        doc="2 M access lines, text file to typed Parquet",
        unit="lines",                        # what is counted
        prepare=write_input,                 # (folder, scale) -> path; not measured, repeatable
        run=to_parquet,                      # (path) -> units done; measured, output beside the input
        goals=(Goal("x REF", required=0.8, aim=1.2),),
        peak_limit_bytes=1 << 30,            # memory it may take; None where there is no limit
        rounds=3,                            # how often it is measured
        grows=True,                          # False: the input has one size, whatever the scale
    )

`load` turns the path into what `run` gets before the clock starts; the default hands on the path. `run`
raises RuntimeError when a value is wrong, so that wrong output is no result. It may return `Work(units,
figures)` with figures of its own.

A goal names its figure, how it is computed from the run and the run beside it (`of`; default: units per
CPU second as a multiple of the other's), what runs beside (`beside`; default: the reference), and the bounds: `required` gates,
`aim` is what limits suggest; `at_most` where less is better. What runs beside is a workload too. One with
`peer="NAME"` is somebody else's module or program: it is measured only where it is installed or lies in --peer-dir (`pip install
--target DIR …`), never listed on its own, and without it its goal says so.

A round is a run of the reference (reference.py), of the workload, and of what its goals compare it with, each in
a fresh process, so that all see the same machine. A figure is the median of the rounds. A quarter and a sixteenth of the work, run once
each, show how the CPU time grows. CPU seconds are user + system of the process, all its
threads and its children. Imports at the head of a workload's file happen before the clock starts; those of
a child process count. Peak memory is the largest of the process and its children, without the process that
measures.

results.py keeps what `--write` measured in results.json and writes docs/benchmarks.md from it.
"""
