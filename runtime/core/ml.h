/* ml.h - the version of Krafla, and nothing that does not belong to everyone.
 * SPDX-License-Identifier: MIT */
#ifndef ML_H
#define ML_H

#define ML_VERSION "0.1.0"

#endif
