# Finds libzip, which reads zip archives: LibZip_FOUND, LibZip_VERSION, the target LibZip::LibZip.
# Its own package asks for its command-line tools too, which Debian has in packages of their own.
find_path(LibZip_INCLUDE_DIR zip.h)
find_library(LibZip_LIBRARY zip)
mark_as_advanced(LibZip_INCLUDE_DIR LibZip_LIBRARY)
find_file(LibZip_CONFIG_HEADER zipconf.h HINTS ${LibZip_INCLUDE_DIR} NO_CACHE)
if(LibZip_CONFIG_HEADER)
  file(STRINGS ${LibZip_CONFIG_HEADER} line REGEX "define LIBZIP_VERSION \"")
  string(REGEX REPLACE ".*\"(.*)\"" "\\1" LibZip_VERSION "${line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibZip
  REQUIRED_VARS LibZip_LIBRARY LibZip_INCLUDE_DIR VERSION_VAR LibZip_VERSION)
if(LibZip_FOUND AND NOT TARGET LibZip::LibZip)
  add_library(LibZip::LibZip UNKNOWN IMPORTED)
  set_target_properties(LibZip::LibZip PROPERTIES
    IMPORTED_LOCATION ${LibZip_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LibZip_INCLUDE_DIR})
endif()
