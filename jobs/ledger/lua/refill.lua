#!lua flags=allow-oom
-- For each queue, notes how many workers take from it, and sends messages for owners that have fewer in its list than
-- they may: because workers have come, or because scripts of another version took jobs and sent none after them. What a
-- window holds is counted anew. Returns how many messages were sent.
local LOOKED_AT = 1000 -- messages in a list; a longer one is looked through by several sweeps
local SEEN_MS = 60000 -- what earlier sweeps saw is forgotten if none goes on with it
local AT_ONCE = 64 -- for an owner that has none, so workers of another version are kept busy
local at, in_all = int(now()), 0

-- How many queued jobs of each owner have a message, and the owners in the order of their first ones; nil if there are
-- too many to count.
local function count_sent(queue)
  local below = '(' .. int(UNSENT)
  if redis.call('ZCOUNT', queued_key(queue), '-inf', below) > LOOKED_AT then
    return nil
  end
  local sent, owners = {}, {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', queued_key(queue), '-inf', below)) do
    local owner = redis.call('HGET', job_key(id), 'owner')
    if not sent[owner] then
      sent[owner], owners[#owners + 1] = 0, owner
    end
    sent[owner] = sent[owner] + 1
  end
  return sent, owners
end

-- Reads on in a long list, from where the last sweep ended. Once the end is reached, returns what has a key for each owner
-- that has a message there; else nil. Numbers only rise, so messages that are sent meanwhile are still to come.
--   seen:<queue>  hash  the owners seen so far; and under '' the last number that was read
local function see_more(queue)
  local key = prefix .. 'seen:' .. queue
  local from = redis.call('HGET', key, '')
  local found = redis.call('ZRANGEBYSCORE', queued_key(queue), from and '(' .. from or '-inf', '(' .. int(UNSENT),
    'WITHSCORES', 'LIMIT', 0, LOOKED_AT)
  for i = 1, #found, 2 do
    redis.call('HSET', key, redis.call('HGET', job_key(found[i]), 'owner') or '', 1)
  end
  if #found == 2 * LOOKED_AT then
    redis.call('HSET', key, '', found[#found])
    redis.call('PEXPIRE', key, SEEN_MS)
    return nil
  end
  local seen = {}
  for _, owner in ipairs(redis.call('HKEYS', key)) do
    seen[owner] = true
  end
  redis.call('DEL', key)
  return seen
end

-- Notes whether no worker takes from the queue; records of its jobs then say so.
local function mark_unserved(queue, workers)
  local unserved = 'unserved:' .. queue
  local is_marked = redis.call('HEXISTS', counts, unserved) == 1
  if tonumber(workers) == 0 and not is_marked then
    write('HSET', counts, unserved, 1)
  elseif tonumber(workers) > 0 and is_marked then
    write('HDEL', counts, unserved)
  end
end

-- Sends an owner's next jobs. `sent`: how many messages it has; `window`: how many it was taken to have.
local function top_up(queue, owner, sent, window)
  local more = send_next(queue, owner, sent == 0 and AT_ONCE or share_of(queue, owner, {}) - sent, at)
  if int(sent + more) ~= window then
    set_sent(queue, owner, sent + more)
  end
  in_all = in_all + more
  if more > 0 then
    carry_out() -- for each owner: a command takes some thousands of arguments at most
  end
end

-- Whether an owner has jobs without a message. `windows`: owners, each with what its window holds.
local function any_waits(queue, windows)
  for i = 1, #windows, 2 do
    if redis.call('EXISTS', backlog_key(queue, windows[i])) == 1 then
      return true
    end
  end
  return false
end

-- Of a long list: owners without a message. How many the others have is not known, and they need no help.
local function help_on(queue, windows)
  local seen = any_waits(queue, windows) and see_more(queue)
  for i = 1, seen and #windows or 0, 2 do
    if not seen[windows[i]] then
      top_up(queue, windows[i], 0, windows[i + 1])
    end
  end
end

local function refill(queue, workers)
  mark_unserved(queue, workers)
  if window_of(queue) ~= math.max(1, workers) then
    write('HSET', counts, 'workers:' .. queue, workers)
    known['workers:' .. queue] = tonumber(workers)
  end
  local flat = redis.call('HGETALL', window_key(queue))
  if #flat == 0 then
    return
  end
  local counted, owners = count_sent(queue)
  if not counted then
    return help_on(queue, flat)
  end
  local window = {}
  for i = 1, #flat, 2 do
    local owner = flat[i]
    window[owner] = flat[i + 1]
    if not counted[owner] then
      owners[#owners + 1] = owner
    end
  end
  for _, owner in ipairs(owners) do
    if window[owner] then -- else an open server's
      top_up(queue, owner, counted[owner] or 0, window[owner])
    end
  end
end

for i = 2, #ARGV - 2, 2 do
  refill(ARGV[i], ARGV[i + 1])
end
carry_out()
return in_all
