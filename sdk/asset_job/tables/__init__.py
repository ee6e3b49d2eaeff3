"""Writing a run's rows once: each run owns one part of a table, and a repetition of the run replaces it as a whole.

<target>/run=<run>/[<column>=<value>/…]/part-….parquet    what readers see
<target>/run=<run>/_run.json                              which run that is
<target>/_staging/run=<run>/<try>/…                       what is being written; Spark and pyarrow pass it over
"""
