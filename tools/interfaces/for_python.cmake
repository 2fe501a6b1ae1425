# Only Python uses these packages. Code for C++ would take half of the build time. A unity build saves a
# fifth of the rest, as it reads the headers of Fast CDR only once.
list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "_cpp:")
cmake_language(DEFER CALL set_target_properties ${PROJECT_NAME}__rosidl_typesupport_fastrtps_c
  PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
