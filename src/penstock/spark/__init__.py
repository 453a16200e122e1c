"""The only package that imports pyspark: pipelines, lanes, turns and the shuffle."""
