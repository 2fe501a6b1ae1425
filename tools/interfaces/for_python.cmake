# Only Python uses these packages here: what C++ would need of them took half of the time, and
# the headers of Fast CDR, read for every interface anew, a fifth of the rest.
list(FILTER AMENT_EXTENSIONS_rosidl_generate_idl_interfaces EXCLUDE REGEX "_cpp:")
cmake_language(DEFER CALL set_target_properties ${PROJECT_NAME}__rosidl_typesupport_fastrtps_c
  PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
