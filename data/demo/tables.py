"""The words of the demo corpus as tables, English and French together. `lexicon.py` reads them.

French is in the notation of `phrase.aligned`: `machine/1 à/0? laver/0` says which English word each French word is
linked to. `_` joins the words of an English compound. Every English form has exactly one French meaning here, so that
French is a function of English: that is why "fish" (one or several?) and the past tense of "read" are missing.
The kind of a noun decides which verbs and adjectives go with it.
"""

# kind | English, plural where it is not regular ("-": none) | French ; plural where it is not regular | gender
NOUN_TABLE = """
person | man men                | homme                   | m
person | woman women            | femme                   | f
person | girl                   | fille                   | f
person | boy                    | garçon                  | m
person | child children         | enfant                  | m
person | teacher                | professeur              | m
person | doctor                 | médecin                 | m
person | student                | étudiant                | m
person | neighbor               | voisin                  | m
person | queen                  | reine                   | f
person | mother                 | mère                    | f
person | father                 | père                    | m
person | brother                | frère                   | m
person | sister                 | sœur                    | f
person | hero heroes            | héros                   | m
person | guest                  | invité                  | m
animal | cat                    | chat                    | m
animal | dog                    | chien                   | m
animal | bird                   | oiseau                  | m
animal | horse                  | cheval                  | m
animal | owl                    | hibou ; hiboux          | m
animal | mouse mice             | souris                  | f
food   | apple                  | pomme                   | f
food   | orange                 | orange                  | f
food   | potato potatoes        | pomme de/0? terre       | f
food   | egg                    | œuf                     | m
food   | cake                   | gâteau                  | m
food   | bean                   | haricot                 | m
food   | bread -                | pain                    | m
food   | cheese -               | fromage                 | m
food   | soup -                 | soupe                   | f
drink  | water -                | eau                     | f
drink  | milk -                 | lait                    | m
drink  | coffee -               | café                    | m
drink  | juice -                | jus                     | m
drink  | apple_juice -          | jus/1 de/0? pomme/0     | m
drink  | orange_juice -         | jus/1 de/0? orange/0    | m
text   | book                   | livre                   | m
text   | letter                 | lettre                  | f
text   | newspaper              | journal                 | m
text   | story stories          | histoire                | f
object | table                  | table                   | f
object | chair                  | chaise                  | f
object | box boxes              | boîte                   | f
object | key                    | clé                     | f
object | hat                    | chapeau                 | m
object | flower                 | fleur                   | f
object | bag                    | sac                     | m
object | umbrella               | parapluie               | m
object | washing_machine        | machine/1 à/0? laver/0  | f
vehicle| car                    | voiture                 | f
vehicle| boat                   | bateau                  | m
place  | house                  | maison                  | f
place  | garden                 | jardin                  | m
place  | kitchen                | cuisine                 | f
place  | school                 | école                   | f
place  | hotel                  | hôtel                   | m
place  | train_station          | gare/1,0?               | f
place  | church churches        | église                  | f
place  | tree                   | arbre                   | m
place  | forest                 | forêt                   | f
place  | university universities| université              | f
power  | government             | gouvernement            | m
power  | minister               | ministre                | m
power  | parliament             | parlement               | m
power  | company companies      | entreprise              | f
power  | country countries      | pays                    | m
treaty | agreement              | accord                  | m
treaty | treaty treaties        | traité                  | m
treaty | law                    | loi                     | f
matter | policy policies        | politique               | f
matter | decision               | décision                | f
matter | reform                 | réforme                 | f
matter | project                | projet                  | m
"""

# English | masculine, feminine where it is not regular, [form before a vowel] | position | kinds
ADJECTIVE_TABLE = """
small         | petit                   | before | person animal food text object vehicle place
big           | grand                   | before | animal food object vehicle place
beautiful     | beau belle bel          | before | person animal text object vehicle place
old           | vieux vieille vieil     | before | person animal text object vehicle place
new           | nouveau nouvelle nouvel | before | text object vehicle place treaty matter
young         | jeune                   | before | person animal
good          | bon bonne               | before | food drink text
red           | rouge                   | after  | object vehicle
green         | vert                    | after  | object vehicle
blue          | bleu                    | after  | object vehicle
black         | noir                    | after  | animal object vehicle
white         | blanc blanche           | after  | animal object vehicle
hot           | chaud                   | after  | food drink
cold          | froid                   | after  | food drink
fresh         | frais fraîche           | after  | food drink
interesting   | intéressant             | after  | text
boring        | ennuyeux ennuyeuse      | after  | text
expensive     | cher chère              | after  | food text object vehicle
famous        | célèbre                 | after  | person place text
happy         | heureux heureuse        | after  | person animal
tired         | fatigué                 | after  | person animal
sick          | malade                  | after  | person animal
sad           | triste                  | after  | person animal
european      | européen européenne     | after  | power treaty matter
national      | national                | after  | power treaty matter
economic      | économique              | after  | treaty matter
political     | politique               | after  | treaty matter
important     | important               | after  | treaty matter
difficult     | difficile               | after  | treaty matter
"""

# subjects | objects ("-" none, "+" also takes "to somebody") | English base, past ("-": not used) | French
VERB_TABLE = """
person animal | food | eat ate | manger mange mange mangeons mangez mangent mangé
person | drink | drink drank | boire bois boit buvons buvez boivent bu
person animal | person animal food text object vehicle place | see saw | voir vois voit voyons voyez voient vu
person | person animal food drink text object vehicle place | like - | aimer
person | text | read - | lire lis lit lisons lisez lisent lu
person | text | write wrote | écrire écris écrit écrivons écrivez écrivent écrit
person | food drink text object vehicle | buy bought | acheter achète achète achetons achetez achètent acheté
person | food text object vehicle | sell sold | vendre vends vend vendons vendez vendent vendu
person animal | animal food text object vehicle place | find found | trouver
person animal | person animal food text object vehicle place | look_for looked | chercher
person | person | listen_to listened | écouter
person | person | help helped | aider
person | place | visit visited | visiter
person | object vehicle | wash washed | laver
person | food text object | hide hid | cacher
person | food drink | prepare prepared | préparer
person | + food text object | give gave | donner
person | + text object vehicle place animal | show showed | montrer
person animal | - | sleep slept | dormir dors dort dormons dormez dorment dormi
person | - | sing sang | chanter
person | - | work worked | travailler
person animal | - | play played | jouer
person | - | dance danced | danser
power | treaty matter | discuss discussed | discuter
power | treaty matter | accept accepted | accepter
power | treaty matter | change changed | changer change change changeons changez changent changé
power | treaty matter | defend defended | défendre défends défend défendons défendez défendent défendu
power | treaty | sign signed | signer
person | - | live lived | habiter
person | - | go - | aller vais va allons allez vont allé
person | - | say - | dire dis dit disons dites disent dit
person | - | think - | penser
person | - | know - | savoir sais sait savons savez savent su
"""

# name, the same in French | gender
PEOPLE_TABLE = """
Jane | f
Emma | f
Anne | f
Paul | m
Marc | m
Hugo | m
"""

# English | French | article | the preposition that says "in" and "to"
LAND_TABLE = """
France | France  | la | en
Africa | Afrique | la | en
Italy  | Italie  | la | en
Canada | Canada  | le | à
Japan  | Japon   | le | à
"""

NUMBER_TABLE = """
two   | deux
three | trois
four  | quatre
five  | cinq
six   | six
eight | huit
ten   | dix
"""

# English | French for I, he/she/it, we, you, they
MODAL_TABLE = """
can  | peux peut pouvons pouvez peuvent
must | dois doit devons devez doivent
want | veux veut voulons voulez veulent
"""

ADVERB_TABLE = """
often     | souvent
always    | toujours
sometimes | parfois
"""

# tense that it goes with | English | French
TIME_TABLE = """
present   | today          | aujourd'hui
present   | every day      | tous/0 les/0? jours/1
present   | in the morning | le/1,0? matin/2
present   | this evening   | ce soir/1
past      | yesterday      | hier
past      | last week      | la/0? semaine/1 dernière/0
past      | last year      | la/0? année/1 dernière/0
future    | tomorrow       | demain
future    | next week      | la/0? semaine/1 prochaine/0
future    | next year      | la/0? année/1 prochaine/0
"""

PLACE_PREPOSITION_TABLE = """
in          | dans
behind      | derrière
near        | près de/0?
in front of | devant/1,0?,2?
"""

MONTHS = {"january": "janvier", "march": "mars", "may": "mai", "june": "juin", "august": "août", "october": "octobre"}
YEARS = ("1992", "1995", "1998", "2004", "2010")

# English words that start with a vowel letter but take "a", and French words with an h that stops elision.
CONSONANT_SOUNDS = ("european", "university", "universities")
ASPIRATED_H = ("héros", "haricot", "haricots", "hibou", "hiboux", "huit")
