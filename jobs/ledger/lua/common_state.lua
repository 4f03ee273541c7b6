-- Put last of what scripts share: a function of a library keeps what stands at the left margin from one call to the next,
-- so each call begins anew. A script has it new by itself.
local function begin(arguments)
  call = redis.call
  LISTS, MESSAGE = arguments[#arguments - 1], arguments[#arguments]
end

-- The same for what is gathered, and for what was read with it: ten tables, so usual jobs do without.
local function gather()
  writes, in_order, deltas, known, owed, books, news = {}, {}, {}, {}, {}, {}, {}
  left, served, launched, settled, recorded = {}, {}, {}, 0, nil
end
