// KPT_API marks what the shared library exports; everything else stays hidden.
#pragma once

#define KPT_API [[gnu::visibility("default")]]
