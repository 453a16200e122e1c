"""The only package that imports pyspark: the driver's session and jobs, and the stream threads in its workers."""
