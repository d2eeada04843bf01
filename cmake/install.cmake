# install.cmake - the shared library, and what `cmake --install` puts where.
#
# Every path in what is installed is computed from the place where it lies, so the whole may be moved;
# only libllama, which is somebody else's, is looked for where it was found when this was built, and
# then beside our own library. With RETRACE_BUNDLE its shared libraries are installed too, into a
# folder of our own: the one that the set-up builds lies in the cache of a person, where others
# cannot read it and anybody may clean up. docs/install.md says how the result is used.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(SCRIPT ${CMAKE_BINARY_DIR}/share/folders.cmake) # before all else; written at the end

# ==== Where libllama is ====

# files_of(OUT ITEM...): the files that linking with these means, and those that these are linked with.
function(files_of out)
    foreach(item IN LISTS ARGN)
        string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
        if(NOT TARGET "${item}")
            list(APPEND found "${item}")
            continue()
        endif()
        get_target_property(configurations ${item} IMPORTED_CONFIGURATIONS)
        foreach(configuration "" ${configurations})
            string(REGEX REPLACE "(.+)" "_\\1" configuration "${configuration}")
            get_target_property(file ${item} IMPORTED_LOCATION${configuration})
            if(file)
                list(APPEND found "${file}")
                break()
            endif()
        endforeach()
        get_target_property(more ${item} INTERFACE_LINK_LIBRARIES)
        if(more)
            files_of(below ${more})
            list(APPEND found ${below})
        endif()
    endforeach()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

set(llama_files "")
set(llama_folders "")
if(RETRACE_LLAMA)
    files_of(llama_files llama)
    list(REMOVE_DUPLICATES llama_files)
    foreach(file IN LISTS llama_files)
        if(file MATCHES "/[^/]*\\.(so|dylib)$")
            get_filename_component(folder ${file} DIRECTORY)
            list(APPEND llama_folders ${folder})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES llama_folders)
    list(REMOVE_ITEM llama_folders ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
endif()

set(bundle OFF)
if(RETRACE_BUNDLE AND llama_folders)
    set(bundle ON)
    foreach(file IN LISTS llama_files)
        if(file MATCHES "/[^/]*\\.(so|dylib)$")
            file(GLOB names ${file}*)
            install(FILES ${names} DESTINATION ${CMAKE_INSTALL_LIBDIR}/retrace)
        endif()
    endforeach()
endif()

# rpath_of(TARGET FOLDER): where what is installed in the folder looks for libllama.
function(rpath_of target folder)
    file(RELATIVE_PATH way ${folder} ${CMAKE_INSTALL_FULL_LIBDIR})
    set(here $ORIGIN)
    if(APPLE)
        set(here @loader_path)
    endif()
    if(way)
        string(APPEND here /${way})
    endif()
    set(path ${llama_folders} ${here})
    if(bundle)
        set(path ${here}/retrace)
    endif()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${path}")
endfunction()

# ==== The shared library: the objects of the static one, linked ====

set(link_language C)
if(RETRACE_LLAMA)
    set(link_language CXX)
endif()
set_target_properties(libretrace PROPERTIES EXCLUDE_FROM_ALL OFF POSITION_INDEPENDENT_CODE ON
    EXPORT_NAME static)
# No other library may put its own retrace_* functions in place of ours, so calls need no detour.
target_compile_options(libretrace PRIVATE -fno-semantic-interposition)
add_library(libretrace_shared SHARED $<TARGET_OBJECTS:libretrace>)
target_include_directories(libretrace_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_link_libraries(libretrace_shared PRIVATE ${library_needs})
set_target_properties(libretrace_shared PROPERTIES OUTPUT_NAME retrace EXPORT_NAME retrace
    LINKER_LANGUAGE ${link_language} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
rpath_of(libretrace_shared ${CMAKE_INSTALL_FULL_LIBDIR})
if(NOT APPLE)
    set(exports ${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(libretrace_shared PRIVATE LINKER:--version-script=${exports}
        LINKER:--no-undefined LINKER:--disable-new-dtags)
    set_target_properties(libretrace_shared PROPERTIES LINK_DEPENDS ${exports})
endif()

# ==== What whoever links with the installed static library needs ====

set(library_modules "libutf8proc libpcre2-8 jansson")
set(runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM runtime c m gcc gcc_s ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
foreach(need PkgConfig::retrace_needs m ${runtime})
    target_link_libraries(libretrace INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:${need}>>)
endforeach()
if(RETRACE_LLAMA)
    target_link_libraries(libretrace INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:llama>>)
endif()

# ==== Programs, libraries, headers ====

if(TARGET retrace)
    rpath_of(retrace ${CMAKE_INSTALL_FULL_BINDIR})
    install(TARGETS retrace)
endif()
install(TARGETS libretrace_shared EXPORT retrace-shared INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS libretrace EXPORT retrace-static INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(GLOB headers CONFIGURE_DEPENDS include/*.h)
install(FILES ${headers} TYPE INCLUDE)

# ==== For find_package ====

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/retrace)
configure_package_config_file(cmake/retrace-config.cmake.in share/retrace-config.cmake
    INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/share/retrace-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/share/retrace-config.cmake
    ${CMAKE_BINARY_DIR}/share/retrace-config-version.cmake DESTINATION ${package})
install(EXPORT retrace-shared NAMESPACE retrace:: DESTINATION ${package})
install(EXPORT retrace-static NAMESPACE retrace:: DESTINATION ${package})

# ==== For pkg-config: retrace, and retrace-static ====

set(pc_prefix ${CMAKE_INSTALL_PREFIX})
set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT IS_ABSOLUTE ${pc_libdir})
    file(RELATIVE_PATH way /${pc_libdir}/pkgconfig /)
    set(pc_prefix "\${pcfiledir}/${way}")
    string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
    set(pc_libdir "\${prefix}/${pc_libdir}")
endif()
if(NOT IS_ABSOLUTE ${pc_includedir})
    set(pc_includedir "\${prefix}/${pc_includedir}")
endif()
if(bundle)
    list(TRANSFORM llama_files REPLACE "^.*/([^/]*\\.(so|dylib))$" "\${libdir}/retrace/\\1")
    set(llama_folders "\${libdir}/retrace")
endif()
set(libs "")
foreach(item IN LISTS llama_files runtime ITEMS m)
    if(item MATCHES "^[/$-]")
        list(APPEND libs ${item})
    else()
        list(APPEND libs -l${item})
    endif()
endforeach()
foreach(folder IN LISTS llama_folders)
    list(APPEND libs -Wl,-rpath,${folder})
endforeach()
list(JOIN libs " " libs)

set(pc_name retrace)
set(pc_kind "shared library")
set(pc_needs "Requires.private: ${library_modules}\nLibs: -L\${libdir} -lretrace\nLibs.private: ${libs}")
configure_file(cmake/retrace.pc.in share/retrace.pc @ONLY)
set(pc_name retrace-static)
set(pc_kind "static library")
set(pc_needs "Requires: ${library_modules}\nLibs: \${libdir}/libretrace.a ${libs}")
configure_file(cmake/retrace.pc.in share/retrace-static.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/share/retrace.pc ${CMAKE_BINARY_DIR}/share/retrace-static.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ==== Manual pages, completions, documents ====

# page(KIND FOLDER FILE): what `retrace --help=KIND` prints.
function(page kind folder file)
    set(made ${CMAKE_BINARY_DIR}/share/${file})
    add_custom_command(OUTPUT ${made} DEPENDS retrace VERBATIM
        COMMAND $<TARGET_FILE:retrace> --help=${kind} > ${made})
    set(pages ${pages} ${made} PARENT_SCOPE)
    set(page_folders ${page_folders} ${folder} PARENT_SCOPE)
    string(REGEX REPLACE "^bash-" "" name ${file})
    install(FILES ${made} DESTINATION ${folder} RENAME ${name})
endfunction()

if(TARGET retrace AND NOT CMAKE_CROSSCOMPILING)
    page(man ${CMAKE_INSTALL_MANDIR}/man1 retrace.1)
    page(bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions bash-retrace)
    page(zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _retrace)
    page(fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d retrace.fish)
    add_custom_target(pages ALL DEPENDS ${pages})
endif()
install(FILES docs/libretrace.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE TYPE DOC)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS
    PATTERN __pycache__ EXCLUDE)

# ==== The folders ====

set(folders ${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_LIBDIR} ${package}
    ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_DOCDIR} ${CMAKE_INSTALL_MANDIR}/man3)
if(bundle)
    list(APPEND folders ${CMAKE_INSTALL_LIBDIR}/retrace)
endif()
list(APPEND folders ${page_folders})
string(REGEX REPLACE "([^;]+)" "\"\\1\"" folders "${folders}")
string(REPLACE ";" " " folders "${folders}")
configure_file(cmake/folders.cmake.in ${CMAKE_BINARY_DIR}/share/folders.cmake @ONLY)
