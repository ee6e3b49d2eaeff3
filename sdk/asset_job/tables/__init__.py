"""Write the rows of a run once: each run owns one part of a table, and another try of the run replaces the whole part.

<target>/run=<run>/[<column>=<value>/…]/part-….parquet    what readers see
<target>/run=<run>/_run.json                              which run that is
<target>/_staging/run=<run>/<try>/…                       what is being written; Spark and pyarrow skip this folder
"""
