namespace convgrad {}
