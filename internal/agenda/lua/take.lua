-- serve answers one round of a worker: it gives wake-ups back that the worker cannot serve, grants what may go now to those
-- that it has at work, and takes further ones off the queue. No round looks at more than a fixed number of entries: what is
-- left comes again at once.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the round, as name.number: asked again with it, because the answer was lost, the answer is the same; one that comes
--          after a later number was answered gives nothing out
-- ARGV[2]  the process
-- ARGV[3]  horizon in µs: a slot that close is granted now, for its own moment
-- ARGV[4]  lease in µs
-- ARGV[5]  retention of ended notifications in ms
-- ARGV[6]  room: how many deliveries may begin
-- ARGV[7]  how many further wake-ups to take off the queue
-- ARGV[8]  today, as asynq's counter of a day has it in its name, and
-- ARGV[9]  the second at which that counter ends
-- ARGV[10] how many categories have the same settings for every user but those with limits of their own; of each its name and
--          the number of its settings
-- then     how many settings follow; each is how many arguments it has, then those: max_defer in µs, priority that bypasses,
--          with every more urgent one (0: none, 9: all), how long the category is paused in µs (0: not), the plan, see read_plan
-- then     how many wake-ups are given back; of each: user, generation
-- then     wake-ups that are asked for; of each: user, generation, number of categories, and of each category its name and the
--          number of its settings
--
-- Result   one flat list: now, epoch, how many wake-ups came off the queue; for each that was asked for, in order: an answer; how
--          many new ones; of each: user, generation, 1 and an answer when it was granted from at once, else 0, number of
--          categories, these; how many tasks that are none of ours; of each: id, message.
--          An answer is: number of grants; of each: id, category, at, rule, generation, attempt, failures, arrival, payload,
--          deferrals, history; three times the number of deferrals that were decided; of each: category, how many, rule; 0 when
--          the wake-up is gone, 2 when it has gone back to the queue to come at once, 1 when it stays at work here; then also:
--          the moment to ask again, category and number of the rule that it waits for ("" and 0: none), number of categories,
--          these
local ARGV = ARGV
local round, process = ARGV[1], ARGV[2]
horizon, lease, retention = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local room, pull = tonumber(ARGV[6]), tonumber(ARGV[7])

-- How many entries this script may end, move or grant. Each wake-up has its share, so that none whose backlog expires keeps the
-- others from what they wait for.
local BUDGET = 100

local common_of, cursor = {}, 11
for _ = 1, tonumber(ARGV[10]) do
  common_of[ARGV[cursor]] = tonumber(ARGV[cursor + 1])
  cursor = cursor + 2
end
local settings, many = {}, tonumber(ARGV[cursor])
cursor = cursor + 1
for _ = 1, many do
  settings[#settings + 1] = {
    max_defer = tonumber(ARGV[cursor + 1]), bypass = tonumber(ARGV[cursor + 2]), paused = tonumber(ARGV[cursor + 3]),
    plan = read_plan(cursor + 4),
  }
  cursor = cursor + tonumber(ARGV[cursor]) + 1
end

local common = {}
for category, number in pairs(common_of) do common[category] = settings[number] end

local releases, asks = {}, {}
for _ = 1, tonumber(ARGV[cursor]) do
  releases[#releases + 1] = { user = ARGV[cursor + 1], generation = ARGV[cursor + 2] }
  cursor = cursor + 2
end
cursor = cursor + 1
while cursor <= #ARGV do
  local ask = { user = ARGV[cursor], generation = ARGV[cursor + 1], settings = {}, grants = 0 }
  for i = 1, tonumber(ARGV[cursor + 2]) do
    ask.settings[ARGV[cursor + 1 + 2 * i]] = settings[tonumber(ARGV[cursor + 2 + 2 * i])]
  end
  cursor = cursor + 3 + 2 * tonumber(ARGV[cursor + 2])
  asks[#asks + 1] = ask
end

-- Users whose wake-ups are used up, those of them that were at work before, and those whose wake-ups stay at work and were not.
local used_up, used_up_active, starting = {}, {}, {}

-- hold writes who has a wake-up at work, and until when.
local function hold(agenda, generation, at)
  agenda.generation = generation
  if agenda.new then starting[#starting + 1] = agenda.user end
  redis.call('HSET', agenda.key, '', generation .. ' ' .. process .. ' ' .. digits(at))
  stands_for(agenda, at)
end

-- let_go takes a wake-up from this process.
local function let_go(agenda)
  agenda.generation = nil
  if agenda.new then return end
  redis.call('HDEL', agenda.key, '')
  withdraw(agenda.user, 'active')
end

-- use_up is the end of a wake-up of a user of whom nothing waits any more.
local function use_up(agenda)
  agenda.changed, agenda.generation = {}, nil
  used_up[#used_up + 1] = agenda.user
  if not agenda.new then used_up_active[#used_up_active + 1] = agenda.user end
end

-- forget removes what is left of the agendas of which nothing waits any more, and their wake-ups.
local function forget()
  if #used_up == 0 then return end
  local keys = {}
  for i, user in ipairs(used_up) do keys[i] = partition .. 'a:' .. user end
  redis.call('DEL', unpack(keys))
  redis.call('ZREM', partition .. 'wakeups', unpack(used_up))
  acknowledge(used_up, used_up_active, ARGV[8], ARGV[9])
end

-- back_to_queue has a wake-up come again, at once or at a moment.
local function back_to_queue(agenda, at)
  let_go(agenda)
  come(agenda, at)
end

-- conclude writes how each backlog stands after the grants; it gives the next moment at which something may go, with category
-- and rule, or nil when nothing waits; true beside it when something may go now.
local function conclude(agenda, ask, more)
  local moment, category, rule = agenda.later_due, '', 0
  for _, backlog in pairs(agenda.backlogs) do
    local of, at, why = ask.settings[backlog.category], nil, nil
    if of.paused == 0 then set_paused(agenda, backlog, false) end
    if size_of(backlog) == 0 then
      set_ready(agenda, backlog)
    elseif of.paused > 0 then
      set_ready(agenda, backlog)
      set_paused(agenda, backlog, true)
      at = now + of.paused
    elseif backlog.at and backlog.at > now + horizon then
      if not block(agenda, backlog, of) then more = true end
      if size_of(backlog) > 0 then at, why = backlog.at, backlog.why end
    else
      more = true
      if backlog.at then set_ready(agenda, backlog) end
    end
    if at and (not moment or at < moment) then moment, category, rule = at, why and backlog.category or '', why or 0 end
  end
  return moment, category, rule, more
end

-- categories_of names the categories whose settings the next question needs: of the backlogs that hold something, and of what is
-- due first of what is later, which is in its backlog by then.
local function categories_of(agenda)
  local names = {}
  for category, backlog in pairs(agenda.backlogs) do
    if not backlog.size or backlog.size > 0 then names[#names + 1] = category end
  end
  if not agenda.has_later then return names end
  local first = redis.call('ZRANGE', agenda.later, '0', '0')[1]
  local category = first and redis.call('HGET', partition .. 'n:' .. first, 'c')
  local backlog = category and agenda.backlogs[category]
  if category and not (backlog and (not backlog.size or backlog.size > 0)) then names[#names + 1] = category end
  return names
end

-- grant_all grants what may go now, up to a limit; true when more may go, or this script may look at no more.
local function grant_all(agenda, ask, limit)
  local contenders = {}
  for category, backlog in pairs(agenda.backlogs) do
    local of = ask.settings[category]
    if of.paused == 0 then
      backlog.plan = backlog.plan or plan_for(agenda, backlog, of)
      if not read_first(agenda, backlog) then return true end
      if backlog.first then contenders[#contenders + 1] = backlog end
    end
  end
  while #contenders > 0 do
    local backlog, tired = next_to_go(agenda, contenders, ask)
    if tired then return true end
    if not backlog then return false end
    if ask.grants >= limit or budget <= 0 then return true end
    grant(agenda, backlog, ask)
    if not read_first(agenda, backlog) then return true end
  end
  return false
end

-- knows_too_little tells whether something waits in a category whose settings were not sent, since it came after the wake-up was
-- taken off the queue. It may be what goes first, so nothing goes before it can be judged too.
local function knows_too_little(agenda, ask)
  for category in pairs(agenda.backlogs) do
    if not ask.settings[category] then return true end
  end
  return false
end

-- take answers for one wake-up.
local function take(ask, limit)
  local agenda, place = open_agenda(ask.user), say_later()
  if #noted > 0 then noted = {} end
  if agenda.generation ~= ask.generation then return say_where(GONE) end
  agenda.later_due = earliest_later(agenda)
  if agenda.later_due and agenda.later_due <= now then
    budget = budget - promote(agenda, budget)
    agenda.later_due = earliest_later(agenda)
  end
  if knows_too_little(agenda, ask) then
    save(agenda)
    hold(agenda, ask.generation, now)
    return say_held(now, '', 0, categories_of(agenda))
  end
  local more, moment, category, rule = grant_all(agenda, ask, limit), nil, nil, nil
  moment, category, rule, more = conclude(agenda, ask, more)
  reply[place] = ask.grants
  if not moment and not more then
    use_up(agenda)
    return say_where(GONE)
  end
  save(agenda)
  if more or moment > now + HOLD then
    back_to_queue(agenda, more and now or moment)
    return say_where(more and AGAIN or GONE)
  end
  hold(agenda, ask.generation, moment)
  say_held(moment, category, rule, categories_of(agenda))
end

local left = BUDGET

-- take_share answers for one wake-up of several that are still to be answered: with its share of the room and of what a script
-- may handle.
local function take_share(ask, several)
  local limit, share = math.floor(room / several), math.max(1, math.floor(left / several))
  if room > 0 and limit == 0 then limit = 1 end
  budget = share
  take(ask, limit)
  room, left = room - ask.grants, left - (share - budget)
end

local function release(wakeup)
  local agenda = open_agenda(wakeup.user)
  if agenda.generation == wakeup.generation then back_to_queue(agenda, now) end
end

-- next_generation numbers what is taken off the queue now. The first begins with the time, so that none is given twice, though
-- the partition has lost its state meanwhile.
local function next_generation()
  local generation = redis.call('INCR', partition .. 'generation')
  if generation == 1 then
    generation = now
    redis.call('SET', partition .. 'generation', digits(now))
  end
  return digits(generation)
end

-- may_grant_at_once tells whether the settings of all that waits of a user are known without asking for them.
local function may_grant_at_once(agenda)
  if room == 0 or agenda.personal or agenda.has_later or next(common) == nil then return false end
  for category in pairs(agenda.backlogs) do
    if not common[category] then return false end
  end
  return true
end

-- begin takes up a wake-up that came off the queue: what may go is granted at once where that can be decided, else it is to be
-- asked for. One of whom nothing waits is used up, and false.
local function begin(agenda, generation, several)
  agenda.new = true
  if agenda.size == 0 and not earliest_later(agenda) then
    use_up(agenda)
    return false
  end
  say(agenda.user)
  say(generation)
  gave = true
  if may_grant_at_once(agenda) then
    agenda.generation = generation
    say(1)
    remember_in_round('\nt ' .. generation .. '\t')
    take_share({ user = agenda.user, generation = generation, settings = common, grants = 0 }, several)
    remember_in_round('\t' .. agenda.user)
  else
    hold(agenda, generation, now)
    say(0)
    say_list(categories_of(agenda))
    remember_in_round('\np ' .. generation .. '\t\t' .. agenda.user)
  end
  return true
end

-- pull_wakeups takes further wake-ups off the queue, and tells of them and of the tasks that are none; it gives how many
-- wake-ups came.
local function pull_wakeups()
  local found, foreign, place, new = pull > 0 and pop_pending(pull) or {}, {}, say_later(), 0
  if #found > 0 then
    local generation = next_generation()
    redis.call('HSET', partition .. 'holders', process, digits(now))
    for i, task in ipairs(found) do
      if not is_wakeup(task.message) then
        foreign[#foreign + 1] = task
        starting[#starting + 1] = task.id
      elseif begin(open_agenda(task.id), generation, #found - i + 1) then
        new = new + 1
      end
    end
    count('pulls', #found)
  end
  reply[place] = new
  say(#foreign)
  for _, task in ipairs(foreign) do
    say(task.id)
    say(task.message)
  end
  return #found - #foreign
end

-- say_again answers for a wake-up of a round that has been made: what it was granted and is still in flight, and whether it is
-- still at work here.
local function say_again(agenda, generation, given)
  say_grants_again(given)
  if agenda.generation == generation then
    say_held(agenda.held_until or 0, '', 0, categories_of(agenda))
  else
    say_where(GONE)
  end
end

-- answer_again answers a round that has been made, from what is remembered of it.
local function answer_again(remembered)
  local lines = {}
  for line in string.gmatch(remembered, '[^\n]+') do lines[#lines + 1] = line end
  for i, ask in ipairs(asks) do say_again(open_agenda(ask.user), ask.generation, lines[i + 1] or '') end
  local place, new = say_later(), 0
  for i = #asks + 2, #lines do
    local how, generation, given, user = string.match(lines[i], '^(%a) (%d+)\t([^\t]*)\t(.*)$')
    local agenda = open_agenda(user)
    if how == 't' or agenda.generation == generation then
      new = new + 1
      say(user)
      say(generation)
      say(how == 't' and 1 or 0)
      if how == 't' then say_again(agenda, generation, given) else say_list(categories_of(agenda)) end
    end
  end
  reply[place] = new
  say(0) -- tasks that are none of ours are left to asynq's recovery
  return reply
end

-- answer_nothing answers a round that nobody waits for, or while the partition rests.
local function answer_nothing()
  for _ = 1, #asks do
    say(0)
    say_where(GONE)
  end
  say(0)
  say(0)
  return reply
end

say(now)
say(EPOCH)
local came = say_later()
local remembered = redis.call('GET', memory)
if remembered and was_given_up(round, remembered) then return answer_nothing() end
if remembered and string.sub(remembered, 1, #round + 1) == round .. '\n' then return answer_again(remembered) end

for _, wakeup in ipairs(releases) do release(wakeup) end
if redis.call('EXISTS', tasks .. 'paused') == 1 then
  for _, ask in ipairs(asks) do release(ask) end
  answer_nothing()
else
  for i, ask in ipairs(asks) do
    remember_in_round('\n ')
    take_share(ask, #asks - i + 1)
  end
  reply[came] = pull_wakeups()
end
if #leases > 0 then redis.call('ZADD', partition .. 'e', unpack(leases)) end
make_active(starting)
forget()
remember_round()
close()
return reply
