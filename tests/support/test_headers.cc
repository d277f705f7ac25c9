// Nothing: a file to precompile the headers for that all test programs include (CMakeLists.txt).
