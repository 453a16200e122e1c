"""The only package that imports pyspark: session and jobs in the driver, stream threads in the workers."""
